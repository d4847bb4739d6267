//go:build linux || darwin

package prove

import (
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// peers returns the remote addresses of this process's connections.
func peers() (all []string) {
	files, _ := os.ReadDir("/dev/fd")
	for _, f := range files {
		fd, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
			continue
		}
		peer, err := unix.Getpeername(fd)
		if err != nil {
			continue // not connected
		}
		switch a := peer.(type) {
		case *unix.SockaddrInet4:
			all = append(all, net.JoinHostPort(net.IP(a.Addr[:]).String(), strconv.Itoa(a.Port)))
		case *unix.SockaddrInet6:
			all = append(all, net.JoinHostPort(net.IP(a.Addr[:]).String(), strconv.Itoa(a.Port)))
		case *unix.SockaddrUnix:
			all = append(all, "unix:"+a.Name)
		}
	}
	return all
}
