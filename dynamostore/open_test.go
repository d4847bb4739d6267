package dynamostore

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
		"dynamodb://locks?region=eu-central-1":                   "DynamoDB, table locks",
		"dynamodb://locks/of/us?endpoint=http://127.0.0.1:1":     "DynamoDB at 127.0.0.1:1, table locks, prefix of/us",
		"DynamoDB://my.locks_1/?endpoint=https://dynamo.example": "DynamoDB at dynamo.example, table my.locks_1",
	} {
		s, err := scheme.Opener("dynamodb")(url)
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
		"dynamodb://u:secret@locks?region=x", "dynamodb://locks:1?region=x", "dynamodb://locks?region=x&no-such=secret", "dynamodb://locks?endpoint=secret",
		"dynamodb://locks?endpoint=http://u:secret@host", "dynamodb://locks/secret?region=x#y", "dynamodb:secret", "dynamodb://lo%cks?region=secret", "dynamodb://", "dynamodb:///a",
		"dynamodb://a,b/?region=x", "dynamodb://ab?region=x", "dynamodb://locks/ü?region=x", "dynamodb://locks?%zz=secret",
	} {
		if s, err := Open(url, nil); s != nil || !errors.Is(err, store.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want ErrInvalid without the URL", url, err)
		}
	}
}

func TestOpenLocksOnAServer(t *testing.T) {
	s, err := Open(testserver.DynamoDBURL(testserver.SharedDynamoDB(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	storetest.MustHold(t, s, storetest.Mutex(me, "opened "+apart()))
	for _, f := range s.Check(t.Context()) {
		if f.Err != nil || f.About == "" || f.Text() == "" {
			t.Errorf("%+v", f)
		}
	}
}
