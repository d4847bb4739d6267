package testserver

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A DynamoDB server started here has one table, for locks. It accepts any credentials, and this region.
const (
	DynamoDBTable  = "locks"
	DynamoDBRegion = "us-east-1"
)

// undying runs dynalite, which would end with the first request whose client goes away before it has sent all of it.
const undying = `process.on("uncaughtException", e => { if (e.code !== "ECONNRESET") { console.error(e); process.exit(1) } })
process.argv.splice(1, 0, "dynalite")
require(process.env.HOLDFAST_DYNALITE)`

// DynamoDB starts dynalite for this test, a server that speaks DynamoDB's protocol and keeps its tables in memory.
func DynamoDB(t testing.TB) *Server {
	t.Helper()
	s, err := startDynamoDB(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedDynamoDB returns the address of a DynamoDB server that all tests of this test binary share. Use a prefix of
// your own.
func SharedDynamoDB(t testing.TB) string {
	t.Helper()
	return sharedDynamoDB.share(t)
}

var sharedDynamoDB = sharedKind{"dynamodb", func(tb fataler, dir string) (*Server, error) { return startDynamoDB(tb, dir) }}

// StartDynamoDB starts a DynamoDB server in a directory, for a program that is not a test. Stop ends the server and
// panics if that fails.
func StartDynamoDB(dir string) (*Server, error) { return startDynamoDB(panicker{}, dir) }

// DynamoDBURL returns the URL of a server's table. It puts the credentials into the environment, where the SDK finds
// them, with a setting that keeps the SDK from asking the network for others.
func DynamoDBURL(addr string) string {
	AWSCredentials()
	return "dynamodb://" + DynamoDBTable + "?region=" + DynamoDBRegion + "&endpoint=http://" + addr
}

func startDynamoDB(tb fataler, dir string) (*Server, error) {
	return startOnPort(tb, func(port int) (*Server, error) {
		_, program, err := chosen("dynamodb")
		if err != nil {
			return nil, err
		}
		s := &Server{
			Addr: "127.0.0.1:" + strconv.Itoa(port), tb: tb, dir: dir,
			command: func() *exec.Cmd {
				c := exec.Command("node", "-e", undying, "--", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--createTableMs", "0", "--deleteTableMs", "0")
				c.Env = append(os.Environ(), "HOLDFAST_DYNALITE="+program)
				return c
			},
			ready: func(addr string) error {
				client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
				r, err := client.Get("http://" + addr + "/")
				if err != nil {
					return err
				}
				r.Body.Close()
				if r.StatusCode >= 500 {
					return fmt.Errorf("%s", r.Status)
				}
				return nil
			},
		}
		if err := s.start(); err != nil {
			return nil, err
		}
		return s, createTable(s.Addr)
	})
}

// createTable creates the table. It uses no driver: this package does not import Amazon's.
func createTable(addr string) error {
	const text = `{"TableName": "` + DynamoDBTable + `", "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "B"}]}`
	r, err := http.NewRequest(http.MethodPost, "http://"+addr+"/", strings.NewReader(text))
	if err != nil {
		return err
	}
	for key, value := range map[string]string{
		"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "DynamoDB_20120810.CreateTable", "X-Amz-Date": "20260101T000000Z",
		"Authorization": "AWS4-HMAC-SHA256 Credential=" + AWSAccess + "/20260101/" + DynamoDBRegion + "/dynamodb/aws4_request, SignedHeaders=host, Signature=0",
	} {
		r.Header.Set(key, value)
	}
	answer, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if says, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the table was not created: %s: %s %v", answer.Status, says, err)
	}
	return nil
}
