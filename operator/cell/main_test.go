package cell

import (
	"testing"

	"github.com/pharos-fleet/pharos/internal/testkit"
)

// shared is the API server that the tests of this package have in turn.
var shared testkit.Shared

func TestMain(m *testing.M) { shared.Main(m) }
