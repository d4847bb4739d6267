package s3store

import (
	"context"
	"flag"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/awsconn"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "12") // most of them wait most of the time
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// clientAs is a client of the server as a user. The test closes it at its end.
func clientAs(t testing.TB, addr, access, secret string) *s3.Client {
	t.Helper()
	c, err := clientOf(t.Context(), &location{bucket: testserver.S3Bucket, pathStyle: true, Service: awsconn.Service{Region: testserver.S3Region, Endpoint: "http://" + addr}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	o := c.Options()
	o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: access, SecretAccessKey: secret}, nil
	})
	return s3.New(o)
}

func client(t testing.TB, addr string) *s3.Client {
	t.Helper()
	return clientAs(t, addr, testserver.AWSAccess, testserver.AWSSecret)
}

func storeOn(t testing.TB, addr string, o *Options) *Store {
	t.Helper()
	s, err := New(client(t, addr), testserver.S3Bucket, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// apart is a prefix that no other test uses.
func apart() *Options { return &Options{Prefix: "test-" + store.NewProcess().String()} }

func closing(t testing.TB, s *Store) *Store {
	t.Cleanup(func() { s.Close() })
	return s
}

// until waits for what must happen.
var until = testwait.Until

var me = store.NewProcess()
