//go:build unix

package testserver

import (
	"fmt"
	"syscall"
	"testing"
)

// ClosedPort returns an address where nothing listens. The port is bound, so nothing can listen
// there during the test.
func ClosedPort(t testing.TB) string {
	t.Helper()
	syscall.ForkLock.RLock() // otherwise a program that is started right now inherits the socket
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(s)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(s) })
	if err := syscall.Bind(s, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(s)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}
