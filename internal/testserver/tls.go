package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Certificate is for 127.0.0.1 and self-signed: a client that trusts it needs File among
// its roots.
type Certificate struct{ File, key string }

// NewCertificate makes one for this test.
func NewCertificate(t testing.TB) *Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "holdfast test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // servers may run as another user
		t.Fatal(err)
	}
	c := &Certificate{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	for path, block := range map[string]*pem.Block{c.File: {Type: "CERTIFICATE", Bytes: cert}, c.key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// options returns the settings of a Redis server that also listens with TLS, on a free port.
func (c *Certificate) options(t testing.TB) (addr string, all []string) {
	t.Helper()
	port, err := freePort(t)
	if err != nil {
		t.Fatal(err)
	}
	text := strconv.Itoa(port)
	return net.JoinHostPort("127.0.0.1", text), []string{
		"tls-cert-file", c.File, "tls-key-file", c.key, "tls-ca-cert-file", c.File, "tls-auth-clients", "no", "tls-port", text,
	}
}

// RedisTLS makes a Redis server also listen with TLS, and returns that address. The server
// still announces its address without TLS to others.
func RedisTLS(t testing.TB, c *Certificate, s *Server) (addr string) {
	t.Helper()
	addr, all := c.options(t)
	if answer := s.redisDo("CONFIG SET %s", strings.Join(all, " ")); !strings.Contains(answer, "OK") {
		t.Fatalf("TLS on %s: %s", s.Addr, answer)
	}
	return addr
}

// RedisSentinelTLS is RedisSentinel that also listens with TLS, at the returned address.
func RedisSentinelTLS(t testing.TB, c *Certificate, primary *Server) (addr string) {
	t.Helper()
	addr, all := c.options(t)
	var args []string
	for i := 0; i < len(all); i += 2 {
		args = append(args, "--"+all[i], all[i+1])
	}
	knows(redisSentinel(t, primary, 1, args...), 1)
	return addr
}
