// Package links_test runs senders and receivers as real servers, joined by what
// the tier packages render, and breaks what is between them.
package links_test
