package filestore

// namedWriter is for Linux: the ACLs of macOS are not looked at.
func namedWriter(string, func(int) bool, func(int) bool) (string, error) { return "", nil }
