package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneServerUnderTwoURLsIsRefused(t *testing.T) {
	for _, other := range []string{
		"http://central:80", "http://central/", "http://central:80/", "HTTP://CENTRAL", "http://central.", "http://central/./", "http://user@central",
	} {
		_, err := connect(map[string]string{"central-a": "http://central", "central-b": other}, time.Now)
		require.ErrorContains(t, err, "centrals central-a and central-b have the same URL http://central:80: two servers must agree", other)
	}
	_, err := connect(map[string]string{"a": "https://[::1]", "b": "https://[0:0::1]:443"}, time.Now)
	require.ErrorContains(t, err, "have the same URL")
}

func TestServersThatDifferAreAccepted(t *testing.T) {
	for _, other := range []string{"http://central:9090", "https://central", "http://central-b", "http://central/b"} {
		centrals, err := connect(map[string]string{"central-a": "http://central", "central-b": other}, time.Now)
		require.NoError(t, err, other)
		require.Len(t, centrals, 2)
	}
}
