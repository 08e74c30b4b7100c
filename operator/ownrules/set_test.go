package ownrules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/rules/lint"
)

const alert = `groups:
  - name: images
    rules:
      - alert: NodesMany
        expr: max by (geography, region, cell, cluster) (cluster:nodes:count) > 3000
        labels: {severity: warning}
        annotations:
          summary: Cluster {{ $labels.cluster }} of {{ $labels.cell }} is large.
          description: It has {{ $value }} nodes.
          runbook_url: https://runbooks.example.org/NodesMany
`

func atCentral(files ...lint.File) Set {
	return Set{Rules: map[rules.Tier][]lint.File{rules.Central: files}}
}

func fleet() *v1alpha1.Federation {
	f := &v1alpha1.Federation{}
	f.Name = "fleet"
	return f
}

// What is the same for a server has one digest, wherever it was read from.
func TestDigestIsOfWhatServersGet(t *testing.T) {
	folder := atCentral(lint.File{Name: "rules/central/a.rules.yaml", Content: []byte(alert)})
	require.Equal(t, folder.Digest(), atCentral(lint.File{Name: "ConfigMap team/a.rules.yaml", Content: []byte(alert)}).Digest())
	require.NotEqual(t, folder.Digest(), atCentral(lint.File{Name: "rules/central/b.rules.yaml", Content: []byte(alert)}).Digest())
	require.NotEqual(t, folder.Digest(), atCentral(lint.File{Name: "rules/central/a.rules.yaml", Content: []byte(alert + "\n")}).Digest())
	require.NotEqual(t, folder.Digest(), Set{Rules: map[rules.Tier][]lint.File{rules.Edge: folder.Rules[rules.Central]}}.Digest())
	contract := folder
	contract.Contract = lint.File{Name: "contract.yaml"}
	require.NotEqual(t, folder.Digest(), contract.Digest(), "an empty contract is a mistake, and none is not")
	require.Equal(t, []string{"central/a.rules.yaml", "contract.yaml"}, contract.Names())

	require.Empty(t, Set{}.Digest())
	none, err := Set{}.Check(fleet())
	require.NoError(t, err)
	require.Nil(t, none, "the contract that is built in stays")
}

func TestCheckNamesTheFile(t *testing.T) {
	good := lint.File{Name: "ConfigMap one/a.rules.yaml", Content: []byte(alert)}
	contract, err := atCentral(good).Check(fleet())
	require.NoError(t, err)
	require.NotNil(t, contract)

	for name, c := range map[string]struct {
		set  Set
		want string
	}{
		"no YAML":       {atCentral(lint.File{Name: "ConfigMap one/a.rules.yaml", Content: []byte("groups: [")}), "ConfigMap one/a.rules.yaml:1: "},
		"no contract":   {Set{Contract: lint.File{Name: "ConfigMap one/contract.yaml", Content: []byte("series: 3")}}, "ConfigMap one/contract.yaml:1: "},
		"one name":      {atCentral(good, lint.File{Name: "ConfigMap two/a.rules.yaml", Content: []byte(alert)}), "ConfigMap two/a.rules.yaml: ConfigMap one/a.rules.yaml has the same name, and a server of the central has one file of a name; give one of them another"},
		"a short range": {atCentral(lint.File{Name: "ConfigMap one/a.rules.yaml", Content: []byte(strings.Replace(alert, "(cluster:nodes:count)", "(max_over_time(cluster:nodes:count[59s]))", 1))}), "ConfigMap one/a.rules.yaml:5: looks back over 59s, which must hold 4 intervals of 15s"},
		"a long range":  {atCentral(lint.File{Name: "ConfigMap one/a.rules.yaml", Content: []byte(strings.Replace(alert, "(cluster:nodes:count)", "(max_over_time(cluster:nodes:count[3d]))", 1))}), "ConfigMap one/a.rules.yaml:5: looks back over 3d, and spec.retention of Federation fleet is 2d"},
		"too much": {atCentral(good, lint.File{Name: "ConfigMap one/b.rules.yaml", Content: []byte(alert + strings.Repeat("#", MaxBytes))}),
			"ConfigMap one/b.rules.yaml: is the largest of the central's own rules, which have 525080 bytes together; 524288 at most fit into a server's ConfigMap beside what is built in: write less of them"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.set.Check(fleet())
			require.ErrorContains(t, err, c.want)
		})
	}
}
