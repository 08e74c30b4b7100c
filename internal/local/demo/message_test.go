package demo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMessageSaysWhatStandsUnderItsHeading(t *testing.T) {
	m := message{Text: "### FIRING warning PharosNodeNotReady\n\nnode shop-node-03\n\n" +
		"### RESOLVED warning PharosNodeNotReady\n\nnode shop-node-07 was firing for 1 min\n"}
	require.True(t, m.says("FIRING", "shop-node-03"))
	require.True(t, m.says("RESOLVED", "shop-node-07"))
	require.False(t, m.says("FIRING", "shop-node-07"), "another alert of the message fires")
	require.False(t, m.says("RESOLVED", "shop-node-03"))
}
