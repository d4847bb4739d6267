package dynamostore

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/awsconn"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "dynamodb")
}

// Open returns a Store with a client of its own, which Close closes. The URL is
// dynamodb://table[/prefix][?option=value…]. The options are
//
//	region=NAME     the table's region; else the one that the SDK finds in the environment or in its files
//	endpoint=URL    another server than Amazon's, as http://host:port or https://host
//	profile=NAME    of the SDK's files
//
// The SDK's chain finds the credentials: the environment, its files, the role of a pod, a task or a
// machine. The URL has none. dial makes the connections if it is not nil. Open does no I/O except
// to read the SDK's files. The error matches store.ErrInvalid.
func Open(rawURL string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*Store, error) {
	o, service, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	c, done, err := service.Config(context.Background(), "DynamoDB", dial)
	if err != nil {
		return nil, err
	}
	b, err := newBackend(dynamodb.NewFromConfig(c, func(o *dynamodb.Options) {
		if service.Endpoint != "" {
			o.BaseEndpoint = &service.Endpoint
		}
	}), o)
	if err != nil {
		done()
		return nil, err
	}
	b.close = done
	return &Store{record.New(b), b}, nil
}

func parseURL(rawURL string) (*Options, *awsconn.Service, error) {
	bad := func(format string, args ...any) (*Options, *awsconn.Service, error) {
		return nil, nil, fmt.Errorf("%w: the DynamoDB URL is wrong: %s: want dynamodb://table?region=NAME, or ?endpoint=http://host:port for another server than Amazon's",
			store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return bad("it cannot be read")
	case strings.ToLower(u.Scheme) != "dynamodb":
		return bad("it does not begin with dynamodb://")
	case u.User != nil:
		return bad("it has a user: credentials are in the environment or in the SDK's files (AWS_ACCESS_KEY_ID, AWS_PROFILE)")
	case u.Host == "" || u.Port() != "":
		return bad("it has no table, or a port after it: the server is ?endpoint=http://host:port")
	case u.Fragment != "":
		return bad("it has a #")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("what follows the ? cannot be read")
	}
	service := new(awsconn.Service)
	for option, values := range query {
		switch known, wrong := service.Set(option, values[len(values)-1]); {
		case wrong != "":
			return bad("%s", wrong)
		case !known:
			return bad("there is no option %.20q; there are: %s", option, awsconn.Options)
		}
	}
	return &Options{Table: u.Host, Prefix: strings.Trim(u.Path, "/")}, service, nil
}
