package dynamostore

import (
	"context"
	"flag"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/awsconn"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "12") // most of them wait most of the time
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// client returns a client of the server. The test closes it at its end.
func client(t testing.TB, addr string) *dynamodb.Client {
	t.Helper()
	at := awsconn.Service{Region: testserver.DynamoDBRegion, Endpoint: "http://" + addr}
	c, done, err := at.Config(t.Context(), "DynamoDB", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	c.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: testserver.AWSAccess, SecretAccessKey: testserver.AWSSecret}, nil
	})
	return dynamodb.NewFromConfig(c, func(o *dynamodb.Options) { o.BaseEndpoint = &at.Endpoint })
}

func backendOn(t testing.TB, addr, prefix string) *backend {
	t.Helper()
	b, err := newBackend(client(t, addr), &Options{Table: testserver.DynamoDBTable, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// apart returns a prefix that no other test uses.
func apart() string { return "test-" + store.NewProcess().String() }

var me = store.NewProcess()
