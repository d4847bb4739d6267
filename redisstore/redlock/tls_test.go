package redlock

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// For a rediss URL the nodes' certificates are checked. That takes a process of its own, as Go reads the trusted certificates once. One node
// has no TLS.
func TestOverTLSTheNodesCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	if url := os.Getenv("HOLDFAST_TEST_TLS"); url != "" {
		for _, o := range []*Options{nil, {Dialer: new(net.Dialer).DialContext}} {
			s, err := Open(url, o)
			if err != nil {
				t.Fatal(err)
			}
			allUp(t, s)
			notifications := make(chan store.Notification, 100)
			if err := s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
				t.Fatal(err)
			}
			h, w := mustHold(t, s, mutex("n")), mutex("n")
			if a := mustAsk(t, s, w); a.Granted {
				t.Error("two claims hold the lock")
			}
			if err := s.Release(t.Context(), h); err != nil {
				t.Error(err)
			}
			select {
			case <-notifications:
			case <-time.After(patience):
				t.Error("got no notification")
			}
			if err := s.Release(t.Context(), store.Hold{Name: w.Name, ID: w.ID}); err != nil {
				t.Error(err)
			}
			s.Close()
		}
		return
	}
	cert := testserver.NewCertificate(t)
	var plain, nodes []string
	for i := range 3 {
		server := testserver.Redis(t)
		plain = append(plain, server.Addr)
		if i == 0 {
			nodes = append(nodes, "redis://"+server.Addr)
		} else {
			nodes = append(nodes, "rediss://"+testserver.RedisTLS(t, cert, server))
		}
	}
	if err := Trust(t.Context(), clientsOf(t, plain...), &Options{Timeout: longAnswer}); err != nil {
		t.Fatal(err)
	}
	url := "redlock:" + strings.Join(nodes, ",") + "?timeout=" + longAnswer.String()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), "HOLDFAST_TEST_TLS="+url, "SSL_CERT_FILE="+cert.File)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a process that trusts the certificate: %v\n%s", err, out)
	}
	s, err := Open(url, nil) // this process does not trust them
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.Ask(ctx, mutex("n")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a process that does not trust the certificate: %v", err)
	}
}
