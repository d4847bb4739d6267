package s3store

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "s3")
}

// Open returns a Store with a client of its own, which Close closes. The URL is s3://bucket[/prefix][?option=value…]; the
// options are
//
//	region=NAME        the bucket's region; else the one that the SDK finds in the environment or in its files
//	endpoint=URL       another server than Amazon's, as http://host:port or https://host
//	path_style=BOOL    the bucket is in the path, not in the name of the host; it is, with an endpoint, unless this is false
//	profile=NAME       of the SDK's files
//
// The credentials are those that the SDK's chain finds: the environment, its files, the role of a pod, a task or a machine. None
// are in the URL. dial makes the connections if it is not nil. Open does no I/O, but to read the SDK's files. The error
// matches store.ErrInvalid.
func Open(rawURL string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*Store, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	c, err := clientOf(context.Background(), u, dial)
	if err != nil {
		return nil, err
	}
	b, err := newBackend(c.Client, u.bucket, &Options{Prefix: u.prefix})
	if err != nil {
		c.close()
		return nil, err
	}
	b.close = c.close
	return storeOf(b), nil
}

// A location is what a URL says.
type location struct {
	bucket, prefix, region, endpoint, profile string
	pathStyle                                 bool
}

func parseURL(rawURL string) (*location, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: the S3 URL is wrong: %s: want s3://bucket/prefix?region=NAME, or ?endpoint=http://host:port for another server than Amazon's", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return nil, bad("it cannot be read")
	case strings.ToLower(u.Scheme) != "s3":
		return nil, bad("it does not begin with s3://")
	case u.User != nil:
		return nil, bad("it has a user: credentials are in the environment or in the SDK's files (AWS_ACCESS_KEY_ID, AWS_PROFILE)")
	case u.Host == "" || u.Port() != "":
		return nil, bad("it has no bucket, or a port behind it: the server is ?endpoint=http://host:port")
	case u.Fragment != "":
		return nil, bad("it has a #")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, bad("what follows the ? cannot be read")
	}
	s := &location{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), endpoint: query.Get("endpoint"), pathStyle: query.Get("endpoint") != ""}
	for option, values := range query {
		switch value := values[len(values)-1]; option {
		case "region":
			s.region = value
		case "profile":
			s.profile = value
		case "endpoint":
			if e, err := url.Parse(value); err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || e.User != nil {
				return nil, bad("endpoint is http://host:port or https://host")
			}
		case "path_style":
			switch value {
			case "true", "false":
				s.pathStyle = value == "true"
			default:
				return nil, bad("path_style is true or false")
			}
		default:
			return nil, bad("there is no option %.20q; there are: region, endpoint, path_style, profile", option)
		}
	}
	return s, nil
}

// A closer is a client whose connections can be closed.
type closer struct {
	*s3.Client
	close func()
}

// connecting is how long a connection may take: an ask has five seconds, and is to be sent again.
const connecting = 2 * time.Second

// clientOf is a client of the bucket.
func clientOf(ctx context.Context, u *location, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*closer, error) {
	buildable := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { // with AWS_CA_BUNDLE, which the SDK reads
		if t.DialContext = (&net.Dialer{Timeout: connecting}).DialContext; dial != nil {
			t.DialContext = dial
		}
	})
	o := []func(*config.LoadOptions) error{config.WithHTTPClient(buildable)}
	if u.region != "" {
		o = append(o, config.WithRegion(u.region))
	}
	if u.profile != "" {
		o = append(o, config.WithSharedConfigProfile(u.profile))
	}
	c, err := config.LoadDefaultConfig(ctx, o...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the settings of the S3 client: %w", store.ErrInvalid, err)
	case c.Region == "" && u.endpoint == "":
		return nil, fmt.Errorf("%w: no region for S3: put ?region=NAME behind the URL, or set AWS_REGION", store.ErrInvalid)
	case c.Region == "":
		c.Region = "us-east-1" // what is not Amazon's mostly calls itself so
	}
	transport := c.HTTPClient.(interface{ GetTransport() *http.Transport }).GetTransport() // a copy, whose connections can be closed
	c.HTTPClient = &http.Client{Transport: transport, CheckRedirect: notFollowed}
	client := s3.NewFromConfig(c, func(o *s3.Options) {
		o.UsePathStyle = u.pathStyle
		if u.endpoint != "" {
			o.BaseEndpoint = aws.String(u.endpoint)
		}
	})
	return &closer{client, transport.CloseIdleConnections}, nil
}

// notFollowed returns redirects as responses: S3 sends one for a bucket in another region, for which the request
// would have to be signed again.
func notFollowed(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
