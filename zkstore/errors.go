package zkstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// failed turns a definite error of the driver or the server into one of package store.
func (b *backend) failed(err error) error {
	switch {
	case err == nil || store.Definite(err):
		return err
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrInvalidACL):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	}
	if last := b.dialed.Load(); last != nil && *last != nil && errors.Is(err, zk.ErrNoServer) {
		err = fmt.Errorf("%w: %w", err, *last) // the driver does not say why
	}
	return err
}

// checkPath returns an error for what ZooKeeper does not accept as a path.
func checkPath(path string) error {
	if path == "/" {
		return nil
	}
	bad := !strings.HasPrefix(path, "/") || !utf8.ValidString(path)
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		bad = bad || part == "" || part == "." || part == ".."
	}
	for _, c := range path {
		bad = bad || c < ' ' || c >= 0x7f && c <= 0x9f || c >= 0xf000 && c <= 0xf8ff || c >= 0xfff0
	}
	if bad {
		return fmt.Errorf("%w: %q is no path of ZooKeeper's: want one like /team/locks", store.ErrInvalid, path)
	}
	return nil
}

// ParseURL returns the members of the ensemble, and the Options, of a URL of [Open]. The error
// matches store.ErrInvalid and shows no part of the URL that may hold a password.
func ParseURL(s string) (servers []string, o *Options, err error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: the ZooKeeper URL is wrong: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, nil, bad("want zk://user:password@host:port,host:port/path, with special characters of the password as %%XX")
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.Scheme != "zk":
		return nil, nil, bad("it begins with zk://")
	case err != nil:
		return nil, nil, bad("what follows the ? cannot be read")
	case u.Fragment != "" || u.Opaque != "":
		return nil, nil, bad("it is zk://host:port/path")
	}
	o = &Options{Path: strings.TrimSuffix(u.Path, "/")}
	if o.Path != "" {
		if checkPath(o.Path) != nil {
			return nil, nil, bad("what follows the hosts is no path of ZooKeeper's")
		}
	}
	config, err := parseTLS(query)
	if err != nil {
		return nil, nil, bad("%v", err)
	}
	if config != nil {
		dialer := &tls.Dialer{Config: config}
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		}
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if host == "" || host[0] == ':' { // a missing host must not mean this host, where each process would have its own locks //mutant:zk-url-names-each-host
			return nil, nil, bad("it names no host, or an empty one: want zk://host:port,host:port/path")
		}
		if strings.ContainsAny(host, "@?/") {
			return nil, nil, bad("a host is host:port")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "2181")
		}
		servers = append(servers, host)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		o.Auth = []Auth{{"digest", u.User.Username() + ":" + password}}
	}
	return servers, o, nil
}

func parseTLS(query url.Values) (*tls.Config, error) {
	config := &tls.Config{}
	var cert, key string
	secure := false
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "tls":
			if value != "1" && value != "0" {
				return nil, errors.New("tls is 1 or 0")
			}
			secure = secure || value == "1"
			continue
		case "ca":
			pem, err := os.ReadFile(value)
			if err != nil {
				return nil, fmt.Errorf("its certificates: %w", err)
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(pem) {
				return nil, errors.New("its certificates: there is none in the file of ca")
			}
		case "cert":
			cert = value
		case "key":
			key = value
		case "server-name":
			config.ServerName = value
		default:
			return nil, fmt.Errorf("there is no option %.20q; there are: tls, ca, cert, key, server-name", name)
		}
		secure = true
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("its certificates: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if !secure {
		return nil, nil
	}
	return config, nil
}
