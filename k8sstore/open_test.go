package k8sstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// settings writes a kubeconfig file with two contexts, and returns its path.
func settings(t *testing.T, addr string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "one",
		"clusters": [{"name": "here", "cluster": {"server": "https://` + addr + `", "insecure-skip-tls-verify": true}}],
		"users": [{"name": "admin", "user": {"token": "` + testserver.KubernetesToken + `"}}],
		"contexts": [{"name": "one", "context": {"cluster": "here", "user": "admin", "namespace": "batch"}}, {"name": "two", "context": {"cluster": "here", "user": "admin"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestURLsOpenTheirStore(t *testing.T) {
	file := settings(t, "kube.example:6443")
	for url, want := range map[string]string{
		"k8s://?kubeconfig=" + file:                  "Kubernetes at kube.example:6443, namespace batch",
		"K8s://?context=two&kubeconfig=" + file:      "Kubernetes at kube.example:6443, namespace default",
		"k8s://other/?kubeconfig=" + file:            "Kubernetes at kube.example:6443, namespace other",
		"k8s://other?context=two&kubeconfig=" + file: "Kubernetes at kube.example:6443, namespace other",
	} {
		s, err := scheme.Opener("k8s")(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := s.Describe().Store; got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Without a file and outside of a pod there is no server.
func TestWithoutSettingsThereIsNoServer(t *testing.T) {
	for _, name := range []string{"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	if s, err := Open("k8s://batch", nil); s != nil || !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}

func TestAWrongURLIsInvalidAndNotRepeated(t *testing.T) {
	file := settings(t, "kube.example:6443")
	for _, url := range []string{
		"k8s://u:secret@batch", "k8s://batch:1", "k8s://batch/secret", "k8s://batch?no-such=secret", "k8s://batch#secret", "k8s:secret", "k8s://ba%tch", "k8s://batch?%zz=secret",
		"http://secret", "k8s://batch?context=three&kubeconfig=" + file,
	} {
		s, err := Open(url, nil)
		if s != nil || !errors.Is(err, store.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want ErrInvalid without the URL", url, err)
		}
	}
}

func TestBadInputIsAnErrorBeforeAnyIO(t *testing.T) {
	s := opened(t, "127.0.0.1:1", "batch") // nothing listens there
	ok := storetest.Mutex(me, "a")
	for what, spoil := range map[string]func(*store.Claim){
		"no name":     func(c *store.Claim) { c.Name = "" },
		"a long name": func(c *store.Claim) { c.Name = strings.Repeat("x", store.MaxName+1) },
		"a short TTL": func(c *store.Claim) { c.TTL = s.Describe().MinTTL - 1 },
		"a long TTL":  func(c *store.Claim) { c.TTL = s.Describe().MaxTTL + 1 },
	} {
		c := ok
		spoil(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: ask: %v, want ErrInvalid", what, err)
		}
	}
	for _, o := range []Options{{Namespace: "A"}, {Namespace: strings.Repeat("x", 64)}, {Namespace: "a/b"}, {Namespace: "a.b"}} {
		if _, err := New(at("127.0.0.1:1"), &o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", o, err)
		}
	}
	for _, c := range []*rest.Config{nil, {Host: "%"}, {Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAFile: "/no/such/file"}}} {
		if _, err := New(c, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%v: %v, want ErrInvalid", c, err)
		}
	}
	if _, err := s.Ask(t.Context(), ok); err == nil || store.Definite(err) {
		t.Errorf("without a server: %v, want it indeterminate", err)
	}
}

// Any two names have different Leases, and a name that Kubernetes allows is that of its Lease.
func TestNamesHaveLeasesOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{
		"nightly", "a", "a.b", "a-b", "web-1.example", strings.Repeat("x", 253), strings.Repeat("x", 254), strings.Repeat("x", 255), "Nightly", "nightly ", "a..b", "a.-b", "a-.b", "-a", "a-", ".a", "a.",
		"a/b", "ü", "\xff", "\x00", "holdfast-s-0123456789abcdef", "holdfast-n-", "holdfast", "holdfast-",
	} {
		l := leaseOf(name)
		if other, is := seen[l]; is {
			t.Errorf("%q and %q have one Lease, %s", name, other, l)
		}
		seen[l] = name
		if len(l) > 253 || !shown.MatchString(l) || badDots.MatchString(l) {
			t.Errorf("%q: %q is no name of an object", name, l)
		}
		if plain := l == name; plain != (name == "nightly" || name == "a" || name == "a.b" || name == "a-b" || name == "web-1.example" || name == strings.Repeat("x", 253) || name == "holdfast") {
			t.Errorf("%q has the Lease %q", name, l)
		}
	}
}
