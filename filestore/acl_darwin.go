package filestore

// namedWriter checks nothing: only the Linux version reads ACLs.
func namedWriter(string, func(int) bool, func(int) bool) (string, error) { return "", nil }
