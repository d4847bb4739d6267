package etcdstore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// An authority issues certificates, each with its key in a file beside it.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir()}
	a.issue(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes NAME.pem and NAME.key. The first certificate is the authority's own.
func (a *authority) issue(t *testing.T, name string, c *x509.Certificate) (cert, key string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	by, with := a.cert, a.key
	if by == nil {
		by, with = c, own
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, own.Public(), with)
	must(err)
	if a.cert == nil {
		a.key = own
		a.cert, err = x509.ParseCertificate(der)
		must(err)
	}
	plain, err := x509.MarshalPKCS8PrivateKey(own)
	must(err)
	cert, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	must(os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plain}), 0o600))
	return cert, key
}

// The server requires a certificate of its authority. It comes from the caller's client, or from the files that the URL
// names.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	serverCert, serverKey := a.issue(t, "server", &x509.Certificate{ExtKeyUsage: both, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	cert, key := a.issue(t, "client", &x509.Certificate{ExtKeyUsage: both[1:]})
	ca := filepath.Join(a.dir, "ca.pem")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
	addr := testserver.EtcdTLS(t, config, "--cert-file", serverCert, "--key-file", serverKey, "--client-cert-auth", "--trusted-ca-file", ca).Addr

	mine := closing(t, storeOn(t, clientWith(t, clientv3.Config{Endpoints: []string{"https://" + addr}, TLS: config}), nil))
	hold := mustHold(t, mine, mutex("a"))
	byURL := openURL(t, "etcd://"+addr+"?ca="+ca+"&cert="+cert+"&key="+key)
	if mustAsk(t, byURL, mutexTry("a")).Granted {
		t.Error("two claims hold the lock")
	}
	if err := mine.Release(t.Context(), hold); err != nil {
		t.Error(err)
	}
	bare, err := Open("etcd://" + addr + "?ca=" + ca)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := closing(t, bare).Ask(t.Context(), mutexTry("a")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without a certificate: %v, want ErrUnavailable", err)
	}
}

// User and password belong to the caller's client, which logs in by itself.
func TestAUserOfTheCallersClient(t *testing.T) {
	t.Parallel()
	addr := withUsers(t)
	as := func(user string) *Store {
		c := clientWith(t, clientv3.Config{Endpoints: []string{addr}, Username: user, Password: "secret", DialTimeout: patience})
		return closing(t, storeOn(t, c, nil))
	}
	hold := mustHold(t, as("locks"), mutex("a"))
	if err := as("locks").Release(t.Context(), store.Hold{Name: "a", ID: hold.ID}); err != nil {
		t.Error(err)
	}
	if _, err := as("other").Ask(t.Context(), mutexTry("a")); !errors.Is(err, store.ErrDenied) {
		t.Errorf("a user without rights: %v, want ErrDenied", err)
	}
}
