package azblobstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestURLsOpenTheirStore(t *testing.T) {
	for url, want := range map[string]string{
		"azblob://acme/locks":        "Azure Blob at acme.blob.core.windows.net, container locks, prefix holdfast",
		"azblob://acme/locks/of/us/": "Azure Blob at acme.blob.core.windows.net, container locks, prefix of/us",
		"AzBlob://acme/my-locks?endpoint=http://127.0.0.1:10000/acme":     "Azure Blob at 127.0.0.1:10000, container acme/my-locks, prefix holdfast",
		"azblob://acme/locks?endpoint=https://acme.blob.core.example.net": "Azure Blob at acme.blob.core.example.net, container locks, prefix holdfast",
	} {
		s, err := scheme.Opener("azblob")(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := s.Describe().Store; got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAWrongURLIsInvalidAndNotRepeated(t *testing.T) {
	for _, url := range []string{
		"azblob://u:secret@acme/locks", "azblob://acme:1/locks", "azblob://acme/locks?no-such=secret", "azblob://acme/locks?endpoint=secret", "azblob://acme/locks?endpoint=http://u:secret@host",
		"azblob://acme/locks?endpoint=http://host/?sig=secret", "azblob://acme/secret#y", "azblob:secret", "azblob://ac%me/secret", "azblob://", "azblob://acme", "azblob://acme/ab",
		"azblob://acme/Secret!", "azblob://acme/locks/ü", "azblob://acme/locks?%zz=secret",
	} {
		if s, err := Open(url, nil); s != nil || !errors.Is(err, store.ErrInvalid) || strings.Contains(strings.ToLower(err.Error()), "secret") {
			t.Errorf("%q: %v, want ErrInvalid without the URL", url, err)
		}
	}
}

func TestAWrongKeyIsInvalidAndNotRepeated(t *testing.T) {
	t.Setenv("AZURE_STORAGE_KEY", "secret!")
	if s, err := Open("azblob://acme/locks", nil); s != nil || !errors.Is(err, store.ErrInvalid) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v, want ErrInvalid without the key", err)
	}
}

// Without a key azidentity finds the credentials. Nothing is asked for before the first request.
func TestWithoutAKeyTheCredentialsAreFoundLater(t *testing.T) {
	t.Setenv("AZURE_STORAGE_KEY", "")
	s, err := Open("azblob://acme/locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenLocksOnAServer(t *testing.T) {
	s, err := Open(testserver.AzureURL(testserver.SharedAzure(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	storetest.MustHold(t, s, storetest.Mutex(me, "opened "+apart()))
}
