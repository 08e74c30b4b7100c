package signal

// Kept is how many cells a client is kept for, and how many accesses to clusters.
func (r *Reader) Kept() (cells, clusters int) { return r.cells.Len(), r.clusters.Len() }
