package natsstore

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// Many processes claim one name at once. What each costs the server does not grow with their number.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	addr, o := testserver.SharedNATS(t), apart()
	counts := &recordtest.Counts{}
	ear := connect(t, addr)
	for _, subject := range []string{"$JS.API.*.*.KV_" + o.Bucket, "$JS.API.*.*.*.KV_" + o.Bucket, "$KV." + o.Bucket + ".>", "holdfast.hint." + o.Bucket + ".>"} {
		sub, err := ear.Subscribe(subject, func(m *nats.Msg) { counts.Add(kindOf(m, o.Bucket)) })
		if err != nil {
			t.Fatal(err)
		}
		if err := sub.SetPendingLimits(-1, -1); err != nil {
			t.Fatal(err)
		}
	}
	if err := ear.Flush(); err != nil {
		t.Fatal(err)
	}
	recordtest.Crowd(t, recordtest.CrowdSize(100), counts, func(t *testing.T) store.Store {
		return storeOn(t, connect(t, addr), o)
	})
}

// kindOf names a request.
func kindOf(m *nats.Msg, bucket string) string {
	at, body := m.Subject, string(m.Data)
	key, isKey := strings.CutPrefix(at, "$KV."+bucket+".")
	_, of, _ := strings.Cut(body, "$KV."+bucket+".")
	switch {
	case strings.HasPrefix(key, "n."):
		return "swap"
	case strings.HasPrefix(key, "j."):
		return "join"
	case isKey:
		return "session"
	case strings.HasPrefix(at, "holdfast."):
		return "notification"
	case strings.Contains(at, ".MSG.GET.") && strings.HasPrefix(of, "n."):
		return "load record"
	case strings.Contains(at, ".MSG.GET.") && strings.HasPrefix(of, "j."):
		return "load note"
	case strings.Contains(at, ".MSG.GET."):
		return "left"
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(at, "$JS.API.STREAM."), ".KV_"+bucket))
}
