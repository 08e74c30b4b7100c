package components

import _ "embed"

// Stages say how kwok plays worker nodes and their pods.
//
//go:embed stages.yaml
var Stages []byte
