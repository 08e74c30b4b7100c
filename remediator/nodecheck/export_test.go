package nodecheck

// Plain is what is taken over of a text that anybody may have written.
func Plain(s string) string { return plain(s) }
