package etcdstore

import (
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestAnUnknownHostIsNamed(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"", " on 10.0.0.2:53", " on [::1]:53"} {
		err := dialed(status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp: lookup etcd.example`+on+`: no such host"`))
		if dns := (*net.DNSError)(nil); !errors.As(err, &dns) || dns.Name != "etcd.example" || !dns.IsNotFound {
			t.Errorf("%q: got %v, want a DNSError", on, err)
		}
	}
}
