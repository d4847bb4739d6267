// Package contain starts a process as a container does that has a boot id of
// its own, as systemd-nspawn gives to each: in a mount and a PID namespace, with
// a file mounted over the kernel's boot id. Clock, files and devices stay those
// of the host. It is for proofs and tests; a process calls for it to be started
// so, and the new one calls [Enter] before it does anything else. The package is
// unstable: it may change in any release.
package contain
