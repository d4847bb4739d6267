// Package awsconn is shared by the stores on Amazon's services. It has the options of a URL that say
// where the service is, the settings of a client, and shorter errors.
package awsconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"

	"github.com/holdfast-go/holdfast/store"
)

// A Service says where a service is. It has the options of a URL.
type Service struct {
	Region   string // empty: as the SDK finds it in the environment or in its files
	Endpoint string // another server than Amazon's, as http://host:port or https://host; empty: Amazon's
	Profile  string // of the SDK's files
}

// Options lists the options that Set knows.
const Options = "region, endpoint, profile"

// Set sets an option. It reports whether it knows the option. If the value is wrong, it returns why,
// without the value.
func (s *Service) Set(option, value string) (known bool, wrong string) {
	switch option {
	case "region":
		s.Region = value
	case "profile":
		s.Profile = value
	case "endpoint":
		if e, err := url.Parse(value); err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || e.User != nil {
			return true, "endpoint is http://host:port or https://host"
		}
		s.Endpoint = value
	default:
		return false, ""
	}
	return true, ""
}

// At returns the host of an endpoint, or an empty string if there is none: the server is Amazon's.
func At(endpoint *string) string {
	at := aws.ToString(endpoint)
	if at == "" {
		return ""
	}
	if u, err := url.Parse(at); err == nil {
		return u.Host
	}
	return "?"
}

const (
	// connecting is how long a connection attempt may take: an ask has five seconds, and must have
	// time for another attempt.
	connecting = 2 * time.Second
	// idle is how long an unused connection is kept. Servers close it after some seconds. A request
	// that is sent at that moment gets no answer, and is not sent again.
	idle = 3 * time.Second
)

// Config returns the settings of a client of the service, and a function that closes the client's
// connections. name is the service in messages. dial makes the connections if it is not nil. The
// error matches store.ErrInvalid.
func (s *Service) Config(ctx context.Context, name string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (aws.Config, func(), error) {
	buildable := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { // includes AWS_CA_BUNDLE, which the SDK reads
		if t.DialContext = (&net.Dialer{Timeout: connecting}).DialContext; dial != nil {
			t.DialContext = dial
		}
		t.IdleConnTimeout = idle
	})
	o := []func(*config.LoadOptions) error{config.WithHTTPClient(buildable)}
	if s.Region != "" {
		o = append(o, config.WithRegion(s.Region))
	}
	if s.Profile != "" {
		o = append(o, config.WithSharedConfigProfile(s.Profile))
	}
	c, err := config.LoadDefaultConfig(ctx, o...)
	switch {
	case err != nil:
		return c, nil, fmt.Errorf("%w: the settings of the %s client: %w", store.ErrInvalid, name, err)
	case c.Region == "" && s.Endpoint == "":
		return c, nil, fmt.Errorf("%w: no region for %s: add ?region=NAME to the URL, or set AWS_REGION", store.ErrInvalid, name)
	case c.Region == "":
		c.Region = "us-east-1" // most other servers use this name
	}
	transport := c.HTTPClient.(interface{ GetTransport() *http.Transport }).GetTransport() // a copy, whose connections can be closed
	c.HTTPClient = &http.Client{Transport: transport, CheckRedirect: notFollowed}
	return c, transport.CloseIdleConnections, nil
}

// notFollowed returns redirects as responses. S3 redirects requests for a bucket in another region,
// and the request would have to be signed again.
func notFollowed(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Whole returns the client with a remedy for a race in the SDK. The SDK closes a request's body as soon as there is an
// answer. Its bodies have WriteTo, which then returns io.EOF, and that is an error for net/http if it looks for the end
// of the body only now: it closes the connection, and the answer cannot be read. Bodies that can only be read are safe.
func Whole(c aws.HTTPClient) aws.HTTPClient { return whole{c} }

type whole struct{ c aws.HTTPClient }

func (w whole) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return w.c.Do(r)
}

// IsCode reports whether the service answered with one of these codes.
func IsCode(err error, codes ...string) bool {
	var e smithy.APIError
	return errors.As(err, &e) && slices.Contains(codes, e.ErrorCode())
}

// A briefly is an error of the SDK in fewer words: the SDK repeats the operation, the URL, and the
// IDs of the request.
type briefly struct {
	text string
	err  error
}

func (e *briefly) Error() string { return e.text }
func (e *briefly) Unwrap() error { return e.err }

// Brief returns an error of the SDK in fewer words.
func Brief(err error) error {
	var answered smithy.APIError
	var sent *url.Error
	switch {
	case errors.As(err, &answered):
		return &briefly{answered.ErrorCode() + ": " + answered.ErrorMessage(), err}
	case errors.Is(err, context.DeadlineExceeded):
		return &briefly{"no answer: " + context.DeadlineExceeded.Error(), err}
	case errors.As(err, &sent):
		return &briefly{sent.Err.Error(), err}
	case strings.Contains(err.Error(), "get credentials"):
		return &briefly{"no AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give this machine a role", err}
	}
	return err
}
