package k8sstore

import (
	"flag"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "12") // most of them wait most of the time
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// at returns the configuration of a client of the server, as its administrator.
func at(addr string) *rest.Config {
	return &rest.Config{Host: "https://" + addr, BearerToken: testserver.KubernetesToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// namespace creates one on the shared server, and returns both.
func namespace(t testing.TB) (addr, name string) {
	t.Helper()
	addr = testserver.SharedKubernetes(t)
	return addr, namespaceOn(t, addr)
}

func namespaceOn(t testing.TB, addr string) string {
	t.Helper()
	name := "test-" + strings.ToLower(store.NewProcess().String())
	if err := testserver.KubernetesNamespace(addr, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// backendOn returns a backend. Its connections are closed when the test ends.
func backendOn(t testing.TB, config *rest.Config, namespace string) *backend {
	t.Helper()
	b, err := newBackend(config, &Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

// opened returns a Store in a namespace. It is closed when the test ends.
func opened(t testing.TB, addr, namespace string) *Store {
	t.Helper()
	b := backendOn(t, at(addr), namespace)
	s := &Store{record.New(b), b}
	t.Cleanup(func() { s.Close() })
	return s
}

var me = store.NewProcess()
