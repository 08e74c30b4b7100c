package cell

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// ReceiveURL is where edges write to one shard of a geography's cascade.
func ReceiveURL(l v1alpha1.Link, geography string, shard int32) string {
	return strings.NewReplacer("{geography}", geography, "{shard}", strconv.Itoa(int(shard))).Replace(l.ReceiveURL)
}

// unplanned holds an edge that runs, and is to write, while the plan does not say to whom:
// a Federation that was made anew, or lost its status, finds its plan again, and until then
// the edge goes on as it was.
func unplanned(c *v1alpha1.Cell, f *v1alpha1.Federation, known map[string]bool) error {
	writes := f.Spec.Link.Type == v1alpha1.LinkRemoteWrite && c.Spec.Edge.Mode != v1alpha1.EdgeExternal
	if !writes || !known["StatefulSet "+edgeName] || len(receivers(f, c)) > 0 {
		return nil
	}
	return &workload.Problem{Reason: v1alpha1.ReasonProgressing, Err: fmt.Errorf("waiting for Federation %s to place the cell (its status.geographies has no cell %s): "+
		"until then it is not known which cascade the edge is to write to, and everything in the cell stays as it is; the Federation's own condition says what keeps it", f.Name, c.Name)}
}
