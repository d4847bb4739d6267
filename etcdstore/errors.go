package etcdstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/store"
)

// denied are etcd's errors for a missing right.
var denied = []error{
	rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrAuthFailed,
	rpctypes.ErrInvalidAuthToken, rpctypes.ErrPermissionNotGranted,
}

// failed turns a definite error of the client into one of package store.
func failed(err error) error {
	if err == nil || store.Definite(err) {
		return err
	}
	code := status.Code(err)
	err = dialed(err)
	switch {
	case slices.ContainsFunc(denied, func(d error) bool { return errors.Is(err, d) }), code == codes.PermissionDenied, code == codes.Unauthenticated:
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case code == codes.Unimplemented:
		return fmt.Errorf("%w: etcd 3.4 or newer is needed: %w", store.ErrUnsupported, err)
	}
	return err
}

// known is failed for an operation that certainly changed no lock: an error that is not definite
// becomes store.ErrUnavailable.
func known(err error) error {
	if err = failed(err); !store.Definite(err) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// ParseURL returns the settings of the client, and the Options, of a URL of [Open]. The error
// matches store.ErrInvalid and shows no part of the URL that may hold a password.
func ParseURL(s string) (*clientv3.Config, *Options, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: the etcd URL is wrong: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, nil, bad("want etcd://user:password@host:port,host:port, with special characters of the password as %%XX")
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.Scheme != "etcd":
		return nil, nil, bad("it begins with etcd://")
	case err != nil:
		return nil, nil, bad("what follows the ? cannot be read")
	case u.Opaque != "":
		return nil, nil, bad("it is etcd://host:port")
	case u.Path != "" && u.Path != "/" || u.Fragment != "":
		return nil, nil, bad("nothing but options may be behind the hosts: the beginning of the keys is ?prefix=…")
	}
	var o Options
	var files transport.TLSInfo
	secure := false
	for key, values := range query {
		value := values[len(values)-1]
		switch key {
		case "prefix":
			o.Prefix = value
			continue
		case "tls":
			if value != "1" && value != "0" {
				return nil, nil, bad("tls is 1 or 0")
			}
			secure = secure || value == "1"
			continue
		case "ca":
			files.TrustedCAFile = value
		case "cert":
			files.CertFile = value
		case "key":
			files.KeyFile = value
		case "server-name":
			files.ServerName = value
		default:
			return nil, nil, bad("there is no option %.20q; there are: prefix, tls, ca, cert, key, server-name", key)
		}
		secure = true
	}
	config := &clientv3.Config{
		DialTimeout: 5 * time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(), // failures are returned as errors
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
		config.TLS = &tls.Config{}
		if !files.Empty() || files.TrustedCAFile != "" {
			if config.TLS, err = files.ClientConfig(); err != nil {
				return nil, nil, bad("its certificates: %v", err)
			}
		}
		config.TLS.ServerName = files.ServerName
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if host == "" || host[0] == ':' { // a missing host must not mean this host, where each process would have its own locks //mutant:etcd-url-names-each-host
			return nil, nil, bad("it names no host, or an empty one: want etcd://host:port,host:port")
		}
		if strings.ContainsAny(host, "@?/") {
			return nil, nil, bad("a host is host:port")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "2379")
		}
		config.Endpoints = append(config.Endpoints, scheme+host)
	}
	if u.User != nil {
		config.Username = u.User.Username()
		config.Password, _ = u.User.Password()
	}
	return config, &o, nil
}
