package cell

import (
	"testing"

	"github.com/pharos-fleet/pharos/internal/testkit"
)

// servers is the API server that the tests of this package have in turn.
var servers testkit.Shared

func TestMain(m *testing.M) { servers.Main(m) }
