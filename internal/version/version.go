// Package version holds the release that this source tree builds.
package version

// Version of Pharos, as in the tag of its image.
const Version = "v0.1.0"

// Image is the container image of this version.
const Image = "ghcr.io/pharos-fleet/pharos:" + Version
