package s3store

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
	testserver.AWSCredentials()
	for url, want := range map[string]string{
		"s3://bucket?region=eu-central-1":                                              "S3, bucket bucket, prefix holdfast/",
		"s3://bucket/locks/of/us?endpoint=http://127.0.0.1:1&path_style=true&region=x": "S3 at 127.0.0.1:1, bucket bucket, prefix locks/of/us/",
		"S3://bucket/?endpoint=https://s3.example&path_style=false":                    "S3 at s3.example, bucket bucket, prefix holdfast/",
	} {
		s, err := scheme.Opener("s3")(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		o := s.(*Store).b.server.client.Options()
		if got := s.Describe().Store; got != want || o.UsePathStyle != strings.Contains(url, "path_style=true") {
			t.Errorf("%s: got %q, want %q; options %+v", url, got, want, o)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAWrongURLIsInvalidAndNotRepeated(t *testing.T) {
	for _, url := range []string{
		"s3://u:secret@bucket?region=x", "s3://bucket:1?region=x", "s3://bucket?region=x&no-such=secret", "s3://bucket?endpoint=secret", "s3://bucket?endpoint=http://u:secret@host",
		"s3://bucket?path_style=secret&region=x", "s3://bucket/a//b?region=x", "s3://bucket/secret?region=x#y", "s3:secret", "s3://b%ucket?region=secret", "s3://", "s3:///db", "s3://a,b/db?region=x",
		"s3://u:secret@", "s3://bucket?%zz=secret",
	} {
		if s, err := Open(url, nil); s != nil || !errors.Is(err, store.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want ErrInvalid without the URL", url, err)
		}
	}
}

func TestOpenLocksOnAServer(t *testing.T) {
	s, err := Open(testserver.S3URL(testserver.SharedS3(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	storetest.MustHold(t, s, storetest.Mutex(me, "opened"))
	for _, f := range s.Check(t.Context()) {
		if f.Err != nil || f.About == "" || f.Text() == "" {
			t.Errorf("%+v", f)
		}
	}
}
