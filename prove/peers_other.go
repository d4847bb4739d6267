//go:build !linux && !darwin

package prove

// peers is not known here, where prove has no faults either.
func peers() []string { return nil }
