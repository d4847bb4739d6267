package redisstore

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

func TestTheCheckWarnsOfAPolicyThatDropsKeys(t *testing.T) {
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr)
	s := storeOn(t, client, nil)
	defer s.Close()
	for policy, warns := range map[string]bool{
		"noeviction": false, "allkeys-lru": true, "volatile-ttl": true, "allkeys-random": true,
	} {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		warnings, err := s.Check(t.Context())
		if err != nil || (len(warnings) == 1) != warns {
			t.Errorf("%s: %q, %v", policy, warnings, err)
		}
		if warns && len(warnings) == 1 && !strings.Contains(warnings[0], policy) {
			t.Errorf("%s: %q does not name it", policy, warnings[0])
		}
	}
	blind := storeOn(t, user(t, server, "blind", "-@all", "+ping"), nil)
	defer blind.Close()
	if warnings, err := blind.Check(t.Context()); err != nil || len(warnings) > 0 {
		t.Errorf("for a user who may not ask: %q, %v", warnings, err)
	}
}

func TestAServerThatIsTooOldIsFound(t *testing.T) {
	for version, old := range map[string]bool{
		"2.8.24": true, "5.0.14": true, "6.0.0": false, "6.2.14": false, "7.0.15": false, "10.1": false, "255.255.255": false, "": false, "unstable": false,
	} {
		if tooOld(version) != old {
			t.Errorf("%q too old: %v", version, !old)
		}
	}
}
