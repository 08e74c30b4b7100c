// Package binaries knows which server binaries the local fleet runs, and gets
// them: from a folder of ready ones, or from a cache that it fills by building
// them from source through the Go module proxy.
//
// A binary in the cache is whole and of the version its folder is named after:
// it is built beside its place and renamed into it. Builders exclude each other
// by a file lock, so any number of programs may ask for the same binaries.
//
// The package does not start the binaries and does not fetch ready ones.
package binaries
