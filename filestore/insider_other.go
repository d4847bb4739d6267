//go:build !linux

package filestore

// insider does not know the process that has the file locked on this system.
func (s *Store) insider(string) string { return "another process (this system does not tell which)" }
