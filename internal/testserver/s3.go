package testserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// An S3 server started here has one bucket, in this region, and one user with all permissions.
const (
	S3Bucket  = "locks"
	S3Region  = "us-east-1"
	AWSAccess = "testaccess"
	AWSSecret = "testsecret"
)

// S3 starts versitygw for this test, an S3 server that keeps each object in a file. args are added to the arguments
// of its backend.
func S3(t testing.TB, args ...string) *Server {
	t.Helper()
	return s3Server(t, t.TempDir(), args)
}

// S3Users is S3 with these additional users. Each has the secret "secret" followed by its name, and may do what a
// policy of the bucket allows.
func S3Users(t testing.TB, names ...string) *Server {
	t.Helper()
	type account struct {
		Access string `json:"access"`
		Secret string `json:"secret"`
		Role   string `json:"role"`
	}
	all := map[string]account{}
	for _, name := range names {
		all[name] = account{name, "secret" + name, "user"}
	}
	users, err := json.Marshal(map[string]any{"accessAccounts": all})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "users"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "users", "users.json"), users, 0o600); err != nil {
		t.Fatal(err)
	}
	return s3Server(t, dir, nil)
}

func s3Server(t testing.TB, dir string, args []string) *Server {
	t.Helper()
	s, err := startS3(t, dir, nil, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedS3 returns the address of an S3 server that all tests of this test binary share. Use a prefix of your own.
func SharedS3(t testing.TB) string {
	t.Helper()
	return sharedS3.share(t)
}

var sharedS3 = sharedKind{"s3", func(tb fataler, dir string) (*Server, error) { return startS3(tb, dir, nil, nil) }}

// S3URL returns the URL of a server's bucket. It puts the credentials into the environment, where the SDK finds them,
// with a setting that keeps the SDK from asking the network for others.
func S3URL(addr string) string {
	AWSCredentials()
	return "s3://" + S3Bucket + "?region=" + S3Region + "&endpoint=http://" + addr
}

// AWSCredentials puts the credentials of the user of all S3 and DynamoDB servers into the environment, which the tests
// of both share.
func AWSCredentials() {
	for key, value := range map[string]string{"AWS_ACCESS_KEY_ID": AWSAccess, "AWS_SECRET_ACCESS_KEY": AWSSecret, "AWS_EC2_METADATA_DISABLED": "true"} {
		os.Setenv(key, value)
	}
}

// StartS3 starts an S3 server in a directory, for a program that is not a test. args are added to the arguments of
// versitygw itself. Stop ends the server and panics if that fails.
func StartS3(dir string, args ...string) (*Server, error) { return startS3(panicker{}, dir, args, nil) }

// startS3 starts an S3 server with these arguments for versitygw itself and for its backend.
func startS3(tb fataler, dir string, args, backend []string) (*Server, error) {
	return startOnPort(tb, func(port int) (*Server, error) {
		_, program, err := chosen("s3")
		if err != nil {
			return nil, err
		}
		for _, sub := range []string{"data/" + S3Bucket, "users"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
				return nil, err
			}
		}
		addr := "127.0.0.1:" + strconv.Itoa(port)
		all := slices.Concat([]string{"--port", addr, "--access", AWSAccess, "--secret", AWSSecret, "--region", S3Region, "--iam-dir", filepath.Join(dir, "users"), "--health", "/health",
			"--keep-alive", "--quiet"}, args, []string{"posix"}, backend, []string{filepath.Join(dir, "data")})
		s := &Server{
			Addr: addr, tb: tb, dir: dir,
			command: func() *exec.Cmd { return exec.Command(program, all...) },
			ready: func(addr string) error {
				client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
				r, err := client.Get("http://" + addr + "/health")
				if err != nil {
					return err
				}
				r.Body.Close()
				if r.StatusCode != http.StatusOK {
					return fmt.Errorf("%s", r.Status)
				}
				return nil
			},
		}
		return s, s.start()
	})
}
