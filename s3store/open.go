package s3store

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/internal/awsconn"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "s3")
}

// Open returns a Store with a client of its own, which Close closes. The URL is
// s3://bucket[/prefix][?option=value…]. The options are
//
//	region=NAME        the bucket's region; else the one that the SDK finds in the environment or in its files
//	endpoint=URL       another server than Amazon's, as http://host:port or https://host
//	path_style=BOOL    the bucket is in the path, not in the name of the host; it is, with an endpoint, unless this is false
//	profile=NAME       of the SDK's files
//
// The SDK's chain finds the credentials: the environment, its files, the role of a pod, a task or a
// machine. The URL has none. dial makes the connections if it is not nil. Open does no I/O except
// to read the SDK's files. The error matches store.ErrInvalid.
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

// A location is a parsed URL.
type location struct {
	bucket, prefix string
	pathStyle      bool
	awsconn.Service
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
	s := &location{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), pathStyle: query.Get("endpoint") != ""}
	for option, values := range query {
		value := values[len(values)-1]
		known, wrong := s.Set(option, value)
		switch {
		case wrong != "":
			return nil, bad("%s", wrong)
		case known:
		case option != "path_style":
			return nil, bad("there is no option %.20q; there are: %s, path_style", option, awsconn.Options)
		case value != "true" && value != "false":
			return nil, bad("path_style is true or false")
		default:
			s.pathStyle = value == "true"
		}
	}
	return s, nil
}

// A closer is a client whose connections can be closed.
type closer struct {
	*s3.Client
	close func()
}

// clientOf returns a client of the bucket.
func clientOf(ctx context.Context, u *location, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*closer, error) {
	c, done, err := u.Config(ctx, "S3", dial)
	if err != nil {
		return nil, err
	}
	return &closer{s3.NewFromConfig(c, func(o *s3.Options) {
		o.UsePathStyle = u.pathStyle
		if u.Endpoint != "" {
			o.BaseEndpoint = &u.Endpoint
		}
	}), done}, nil
}
