package pgadvisory

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
)

// The driver gets the settings that the URL has.
func TestSession_SettingsOfAURLReachTheServerAsWritten(t *testing.T) {
	t.Parallel()
	url := strings.Replace(testserver.PostgresURL(sharedAddr(t)), "postgres:", "postgres+session:", 1) + pgtest.Settings + "&schema=s&tokens=1"
	c, o, err := ParseURL(url)
	if err != nil || o.Schema != "s" || !o.Tokens {
		t.Fatalf("got %+v, %v", o, err)
	}
	pgtest.HasSettings(t, c.ConnConfig)
}
