package cell

import (
	"strconv"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// ReceiveURL is where edges write to one shard of a geography's cascade.
func ReceiveURL(l v1alpha1.Link, geography string, shard int32) string {
	return strings.NewReplacer("{geography}", geography, "{shard}", strconv.Itoa(int(shard))).Replace(l.ReceiveURL)
}
