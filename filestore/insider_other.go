//go:build !linux

package filestore

// insider names the process that has the name's file locked, if the system
// reports it.
func (s *Store) insider(string) string { return "another process (this system does not tell which)" }
