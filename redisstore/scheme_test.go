package redisstore_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// A program that imports package open and this one can open these URLs and no others: it links one driver.
func TestOpenAndThisPackageOpenItsURLs(t *testing.T) {
	want := []string{"file", "mem", "redis", "redis+cluster", "redis+sentinel", "rediss", "rediss+cluster", "rediss+sentinel"}
	if all := scheme.All(); !slices.Equal(all, want) {
		t.Errorf("got %q registered, want %q", all, want)
	}
	s, err := open.URL("redis://127.0.0.1:1")
	if _, ok := s.(*redisstore.Store); !ok || err != nil {
		t.Fatalf("got %T, %v", s, err)
	}
	s.Close()
}
