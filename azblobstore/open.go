package azblobstore

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "azblob")
}

// Open returns a Store with a client of its own, which Close closes. The URL is
// azblob://account/container[/prefix][?endpoint=URL]. endpoint is that of the account if it is not
// https://account.blob.core.windows.net, as http://host:port/account or https://host.
//
// The credentials are the key in $AZURE_STORAGE_KEY if that is set, and else those that azidentity
// finds: the environment, a workload's or a managed identity, or the Azure CLI. The URL has none.
// dial makes the connections if it is not nil. Open does no I/O. The error matches
// store.ErrInvalid.
func Open(rawURL string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*Store, error) {
	at, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connecting}).DialContext, TLSHandshakeTimeout: connecting, IdleConnTimeout: idle,
		MaxIdleConnsPerHost: 64, MaxIdleConns: 64}
	if dial != nil {
		t.DialContext = dial
	}
	c, err := at.client(&http.Client{Transport: t})
	if err != nil {
		return nil, err
	}
	b, err := newBackend(c, &Options{Prefix: at.prefix})
	if err != nil {
		return nil, err
	}
	b.close = t.CloseIdleConnections
	return storeOf(b), nil
}

const (
	// connecting is how long a connection attempt may take: an ask has five seconds, and must have time
	// for another attempt.
	connecting = 2 * time.Second
	// idle is how long an unused connection is kept: less than servers keep it. A request that is sent
	// while the server closes its connection gets no answer, and is not sent again.
	idle = 4 * time.Second
)

// A location is a parsed URL.
type location struct{ account, container, prefix, endpoint string }

func parseURL(rawURL string) (*location, error) {
	bad := func(format string, args ...any) (*location, error) {
		return nil, fmt.Errorf("%w: the Azure Blob URL is wrong: %s: want azblob://account/container/prefix", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return bad("it cannot be read")
	case strings.ToLower(u.Scheme) != "azblob":
		return bad("it does not begin with azblob://")
	case u.User != nil:
		return bad("it has a user: credentials are in the environment (AZURE_STORAGE_KEY, or those of azidentity)")
	case u.Host == "" || u.Port() != "":
		return bad("it has no storage account, or a port after it: the server is ?endpoint=http://host:port/account")
	case u.Fragment != "":
		return bad("it has a #")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("what follows the ? cannot be read")
	}
	at := &location{account: u.Host, endpoint: "https://" + u.Host + ".blob.core.windows.net"}
	for option, values := range query {
		if option != "endpoint" {
			return bad("there is no option %.20q; there is: endpoint", option)
		}
		at.endpoint = values[len(values)-1]
		if e, err := url.Parse(at.endpoint); err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || e.User != nil || e.RawQuery != "" {
			return bad("endpoint is http://host:port/account or https://host")
		}
	}
	at.container, at.prefix, _ = strings.Cut(strings.Trim(u.Path, "/"), "/")
	if n := len(at.container); n < 3 || n > 63 || strings.Trim(at.container, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return bad("it has no container, or not the name of one: want 3 to 63 of a-z, 0-9 and -")
	}
	return at, nil
}

// client returns a client of the container.
func (at *location) client(transport *http.Client) (*container.Client, error) {
	whole := strings.TrimSuffix(at.endpoint, "/") + "/" + at.container
	o := azcore.ClientOptions{Transport: transport}
	if key := os.Getenv("AZURE_STORAGE_KEY"); key != "" {
		shared, err := container.NewSharedKeyCredential(at.account, key)
		if err != nil {
			return nil, fmt.Errorf("%w: AZURE_STORAGE_KEY is not a key: want base64", store.ErrInvalid)
		}
		return container.NewClientWithSharedKeyCredential(whole, shared, &container.ClientOptions{ClientOptions: o})
	}
	found, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: o})
	if err != nil {
		return nil, fmt.Errorf("%w: the credentials for Azure: %w", store.ErrInvalid, err)
	}
	c, err := container.NewClient(whole, found, &container.ClientOptions{ClientOptions: o})
	if err != nil {
		return nil, fmt.Errorf("%w: the settings of the Azure Blob client: %w", store.ErrInvalid, err)
	}
	return c, nil
}
