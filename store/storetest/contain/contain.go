// Package contain starts a process as in a container with a boot id of its own,
// which systemd-nspawn gives to each container: in a mount and a PID namespace,
// with a file mounted over the kernel's boot id. Clock, files and devices stay
// those of the host. It is for proofs and tests. The parent starts a process
// with [Attr], and the new process calls [Enter] first. The package is unstable:
// it may change in any release.
package contain
