//go:build unix

package testserver

import (
	"fmt"
	"syscall"
	"testing"
)

// ClosedPort returns an address at which nobody listens, and nobody will during
// the test: it is bound.
func ClosedPort(t testing.TB) string {
	t.Helper()
	syscall.ForkLock.RLock() // or a program that is started right now has the socket, too
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
