package binaries

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write servers.txtar anew")

// packServers packs deploy/local/servers as it is on disk.
func packServers(t *testing.T) []byte {
	t.Helper()
	archive := &txtar.Archive{Comment: []byte("Code generated from deploy/local/servers by make generate. DO NOT EDIT.\n")}
	for _, name := range []string{"go.mod", "go.sum", "servers.go"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "local", "servers", name))
		require.NoError(t, err)
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: data})
	}
	return txtar.Format(archive)
}

func TestServersModuleIsCurrent(t *testing.T) {
	want := packServers(t)
	if *update {
		require.NoError(t, os.WriteFile("servers.txtar", want, 0o644))
		return
	}
	require.True(t, bytes.Equal(want, serversModule),
		"servers.txtar is not what deploy/local/servers holds; run `make generate`")
}
