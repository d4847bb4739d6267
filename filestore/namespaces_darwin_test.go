package filestore

func enterNamespaces() error { return nil }
