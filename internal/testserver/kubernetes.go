package testserver

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// KubernetesToken is the bearer token of the administrator of an API server started here. The server's certificate is
// its own.
const KubernetesToken = "testadmin"

// Kubernetes starts a kube-apiserver for this test, and the etcd server in which it stores its objects. There is no
// other part of a cluster, so no pod runs. The test is skipped unless this is a nightly run.
func Kubernetes(t testing.TB) *Server {
	t.Helper()
	AtNight(t)
	s, err := startKubernetes(t, t.TempDir(), Etcd(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedKubernetes returns the address of a Kubernetes API server that all tests of this test binary share. Use
// namespaces of your own.
func SharedKubernetes(t testing.TB) string {
	t.Helper()
	AtNight(t)
	etcd := SharedEtcd(t)
	return share(t, "kubernetes", func(tb fataler, dir string) (*Server, error) { return startKubernetes(tb, dir, etcd) })
}

// StartKubernetes starts an API server that stores its objects in the etcd server at an address, in a directory, for
// a program that is not a test. Stop ends the server and panics if that fails.
func StartKubernetes(dir, etcd string) (*Server, error) {
	return startKubernetes(panicker{}, dir, etcd)
}

// KubernetesNamespace creates a namespace.
func KubernetesNamespace(addr, name string) error {
	_, err := KubernetesCreate(addr, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}})
	return err
}

// KubernetesCreate sends an object to a path of the API server, as its administrator, and returns the answer.
func KubernetesCreate(addr, path string, object any) (answer []byte, err error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return kubernetesAsks(http.MethodPost, addr, path, text)
}

func kubernetesAsks(method, addr, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequest(method, "https://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+KubernetesToken)
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	got, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, got.Status, text)
	}
	return text, err
}

func startKubernetes(tb fataler, dir, etcd string) (*Server, error) {
	_, program, err := chosen("kubernetes")
	if err != nil {
		return nil, err
	}
	tokens, key := filepath.Join(dir, "tokens"), filepath.Join(dir, "key")
	if err := os.WriteFile(tokens, []byte(KubernetesToken+`,admin,1,"system:masters"`+"\n"), 0o600); err != nil {
		return nil, err
	}
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})
	if err := os.WriteFile(key, text, 0o600); err != nil {
		return nil, err
	}
	return startOnPort(tb, func(port int) (*Server, error) {
		s := &Server{
			Addr: "127.0.0.1:" + strconv.Itoa(port), tb: tb, dir: dir,
			stop: os.Kill, // it waits two minutes for its clients
			ready: func(addr string) error {
				_, err := kubernetesAsks(http.MethodGet, addr, "/readyz", nil)
				return err
			},
			command: func() *exec.Cmd {
				return exec.Command(program, "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port), "--cert-dir="+filepath.Join(dir, "certificates"),
					"--etcd-servers=http://"+etcd, "--etcd-prefix=/registry-"+strconv.Itoa(port), "--endpoint-reconciler-type=none",
					"--authorization-mode=RBAC", "--token-auth-file="+tokens, "--service-account-issuer=https://kubernetes.default.svc",
					"--service-account-key-file="+key, "--service-account-signing-key-file="+key)
			},
		}
		return s, s.start()
	})
}

// KubernetesURL creates a namespace, and returns its URL. It names a file in the directory with the settings of the
// administrator.
func KubernetesURL(addr, dir string) (string, error) {
	name := "test-" + strings.ToLower(rand.Text())
	if err := KubernetesNamespace(addr, name); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "kubeconfig-"+name)
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "test", "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
		"clusters": [{"name": "test", "cluster": {"server": "https://` + addr + `", "insecure-skip-tls-verify": true}}],
		"users": [{"name": "admin", "user": {"token": "` + KubernetesToken + `"}}]}`
	return "k8s://" + name + "?kubeconfig=" + file, os.WriteFile(file, []byte(text), 0o600)
}
