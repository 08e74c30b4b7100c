package testkit_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

func TestAPIServerServesOurResources(t *testing.T) {
	c, err := client.New(testkit.APIServer(t), client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	var cells v1alpha1.CellList
	require.NoError(t, c.List(t.Context(), &cells))
	require.Empty(t, cells.Items)
}
