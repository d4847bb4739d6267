package testserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// An Azure Blob server started here has one account, with this key, and one container, for locks.
const (
	AzureAccount   = "testaccount"
	AzureContainer = "locks"
	AzureKey       = "dGVzdGtleQ==" // in base64
)

// Azure starts Azurite for this test, Microsoft's emulator of Azure Blob Storage. It keeps its blobs on disk: in memory, its
// garbage collection, ten minutes after the start, blocks it for minutes once thousands of blobs were written.
func Azure(t testing.TB) *Server {
	t.Helper()
	s, err := startAzure(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedAzure returns the address of an Azure Blob server that all tests of this test binary share. Use a prefix of
// your own.
func SharedAzure(t testing.TB) string {
	t.Helper()
	return sharedAzure.share(t)
}

var sharedAzure = sharedKind{"azblob", func(tb fataler, dir string) (*Server, error) { return startAzure(tb, dir) }}

// StartAzure starts an Azure Blob server in a directory, for a program that is not a test. Stop ends the server and
// panics if that fails.
func StartAzure(dir string) (*Server, error) { return startAzure(panicker{}, dir) }

// AzureEndpoint returns the endpoint of the account on a server.
func AzureEndpoint(addr string) string { return "http://" + addr + "/" + AzureAccount }

// AzureURL returns the URL of a server's container. It puts the key into the environment.
func AzureURL(addr string) string {
	os.Setenv("AZURE_STORAGE_KEY", AzureKey)
	return "azblob://" + AzureAccount + "/" + AzureContainer + "?endpoint=" + AzureEndpoint(addr)
}

func startAzure(tb fataler, dir string) (*Server, error) {
	return startOnPort(tb, func(port int) (*Server, error) {
		_, program, err := chosen("azblob")
		if err != nil {
			return nil, err
		}
		s := &Server{
			Addr: "127.0.0.1:" + strconv.Itoa(port), tb: tb, dir: dir,
			command: func() *exec.Cmd {
				c := exec.Command(program, "--blobHost", "127.0.0.1", "--blobPort", strconv.Itoa(port), "--location", dir, "--silent", "--skipApiVersionCheck", "--disableTelemetry")
				c.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+AzureAccount+":"+AzureKey)
				return c
			},
			ready: func(addr string) error {
				client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
				r, err := client.Get(AzureEndpoint(addr))
				if err != nil {
					return err
				}
				r.Body.Close() // it lacks a signature
				return nil
			},
		}
		if err := s.start(); err != nil {
			return nil, err
		}
		return s, createContainer(s.Addr)
	})
}

// createContainer creates the container, by a request that is signed with the key of the account. It uses no driver:
// this package does not import Microsoft's.
func createContainer(addr string) error {
	r, err := http.NewRequest(http.MethodPut, AzureEndpoint(addr)+"/"+AzureContainer+"?restype=container", http.NoBody)
	if err != nil {
		return err
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	const version = "2021-12-02"
	signed := "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:" + date + "\nx-ms-version:" + version + "\n/" + AzureAccount + "/" + AzureAccount + "/" + AzureContainer + "\nrestype:container"
	key, err := base64.StdEncoding.DecodeString(AzureKey)
	if err != nil {
		return err
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(signed))
	r.Header.Set("x-ms-date", date)
	r.Header.Set("x-ms-version", version)
	r.Header.Set("Authorization", "SharedKey "+AzureAccount+":"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	answer, err := (&http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if says, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("the container was not created: %s: %s %v", answer.Status, says, err)
	}
	return nil
}
