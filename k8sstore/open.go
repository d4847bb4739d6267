package k8sstore

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "k8s")
}

// Open returns a Store. The URL is k8s://[namespace][?option=value…]. The options are
//
//	kubeconfig=FILE   the settings of the client; else those that kubectl would use ($KUBECONFIG, ~/.kube/config), and in a pod those of its service account
//	context=NAME      of those settings; else the current one
//
// Without a namespace it is that of the settings, or of the pod. The URL has no credentials. dial
// makes the connections if it is not nil. Open does no I/O except to read files. The error matches
// store.ErrInvalid.
func Open(rawURL string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*Store, error) {
	bad := func(format string, args ...any) (*Store, error) {
		return nil, fmt.Errorf("%w: the Kubernetes URL is wrong: %s: want k8s://namespace, or k8s:// for that of the pod", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return bad("it cannot be read")
	case strings.ToLower(u.Scheme) != "k8s":
		return bad("it does not begin with k8s://")
	case u.User != nil:
		return bad("it has a user: credentials are those of the pod, or in the kubeconfig file")
	case u.Port() != "" || strings.Trim(u.Path, "/") != "" || u.Opaque != "":
		return bad("there is more after the namespace: the server is in the kubeconfig file")
	case u.Fragment != "":
		return bad("it has a #")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("what follows the ? cannot be read")
	}
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	for option, values := range query {
		switch value := values[len(values)-1]; option {
		case "kubeconfig":
			rules.ExplicitPath = value
		case "context":
			overrides.CurrentContext = value
		default:
			return bad("there is no option %.20q; there are: kubeconfig, context", option)
		}
	}
	settings := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := settings.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%w: the settings of the Kubernetes client: %w", store.ErrInvalid, err)
	}
	namespace := u.Host
	if namespace == "" {
		if namespace, _, err = settings.Namespace(); err != nil {
			return nil, fmt.Errorf("%w: the namespace in the settings of the Kubernetes client: %w", store.ErrInvalid, err)
		}
	}
	if dial != nil {
		config.Dial = dial
	}
	return New(config, &Options{Namespace: namespace})
}

const (
	// connecting is how long a connection attempt may take: an ask has five seconds, and must have time
	// for another attempt.
	connecting = 2 * time.Second
	// idle is how long an unused connection is kept. API servers close it after 90 seconds.
	idle = 30 * time.Second
)

// transportFor returns a transport without credentials. client-go's own would be shared by the whole
// process for good. It also speaks HTTP/2, on which a lost connection is found only half a minute
// later: every request until then would wait on it. With HTTP/1.1 a request that gets no answer in
// time closes its connection.
func transportFor(config *rest.Config) (*http.Transport, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("%w: the TLS settings for Kubernetes: %w", store.ErrInvalid, err)
	}
	if tls != nil {
		tls.NextProtos = []string{"http/1.1"}
	}
	t := &http.Transport{Proxy: config.Proxy, TLSClientConfig: tls, TLSHandshakeTimeout: connecting, IdleConnTimeout: idle, MaxIdleConnsPerHost: 64, MaxIdleConns: 64,
		DialContext: (&net.Dialer{Timeout: connecting}).DialContext}
	if t.Proxy == nil {
		t.Proxy = http.ProxyFromEnvironment
	}
	if config.Dial != nil {
		t.DialContext = config.Dial
	}
	return t, nil
}
