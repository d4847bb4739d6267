package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func on(t *testing.T, b *backend) *Store {
	t.Helper()
	s := &Store{record.New(b), b}
	t.Cleanup(func() { s.Close() })
	return s
}

// A server that ignores conditions would grant a lock twice. It is refused before anything is granted.
func TestAServerThatIgnoresConditionsIsRefused(t *testing.T) {
	t.Parallel()
	for what, ignored := range map[string]string{"of a first write": "attribute_not_exists(", "of a later write": "= :old"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := &front{sent: func(_ string, in map[string]any) {
				if when, _ := in["ConditionExpression"].(string); strings.Contains(when, ignored) {
					in["ConditionExpression"] = "(" + when + ") OR attribute_exists(#rev) OR attribute_not_exists(#rev)"
				}
			}}
			s := on(t, f.behind(t))
			if _, err := s.Ask(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), testserver.DynamoDBTable) {
				t.Errorf("an ask: %v, want ErrUnsupported with the table", err)
			}
			if all := s.Check(t.Context()); len(all) != 1 || !errors.Is(all[0].Err, store.ErrUnsupported) {
				t.Errorf("Check: got %+v", all)
			}
		})
	}
	s := on(t, (&front{sent: func(string, map[string]any) {}}).behind(t)) // the control: nothing is changed
	storetest.MustHold(t, s, storetest.Mutex(me, "a"))
}

// Without the server's time no session begins: its end could not be judged.
func TestWithoutTheServersTimeNoLeaseIsTaken(t *testing.T) {
	t.Parallel()
	for what, f := range map[string]*front{
		"no Date":      {answer: func(_ string, h http.Header, _ map[string]any) { h["Date"] = []string{""} }},
		"slow answers": {before: func(string, http.ResponseWriter) bool { time.Sleep(early + object.Stale + time.Second); return false }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := f.behind(t)
			if _, err := b.Begin(t.Context(), session.NewID(), time.Minute); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "Date") {
				t.Errorf("a session: %v, want ErrUnavailable with the reason", err)
			}
		})
	}
}

// The lower bound of the server's clock is right.
func TestTheServersTimeIsBounded(t *testing.T) {
	b := backendOn(t, testserver.SharedDynamoDB(t), apart())
	for range 3 {
		sent := time.Now() // the server's clock is this machine's
		if _, date, err := b.server.get(t.Context(), "none"); err != nil || date.IsZero() {
			t.Fatalf("got %v, %v", date, err)
		}
		least := time.UnixMicro(b.server.time().earliest())
		if least.After(time.Now()) || sent.Sub(least) > object.Stale {
			t.Errorf("the lower bound is %v at %v", least, time.Now())
		}
	}
}

// What an answer does to the lower bound. An old answer that arrives late must not lower it: a session written by it
// would end for others while its owner counts on the write before.
func TestAnOldAnswerDoesNotSetTheClockBack(t *testing.T) {
	t.Parallel()
	const second = store.Instant(time.Second)
	start := time.UnixMicro(1_700_000_000_000_000)
	known := clock{start.UnixMicro(), 10 * second}
	for what, c := range map[string]struct {
		from      clock
		date      time.Time
		sent, now store.Instant
		want      time.Time // at now
	}{
		"the first answer":                        {clock{}, start, 10 * second, 11 * second, start},
		"a recent answer raises it":               {known, start.Add(9 * time.Second), 10 * second, 12 * second, start.Add(9 * time.Second)},
		"a truncated Date leaves it":              {known, start.Add(time.Second), 11 * second, 12 * second, start.Add(2 * time.Second)},
		"an answer sent before, an hour older":    {known, start.Add(-time.Hour), 9 * second, 12 * second, start.Add(2 * time.Second)},
		"a local clock that runs fast is lowered": {known, start.Add(90 * time.Second), 109 * second, 110 * second, start.Add(93 * time.Second)},
	} {
		got := c.from.after(c.date, c.sent, c.now)
		if got.at != c.now || got.least != c.want.UnixMicro() {
			t.Errorf("%s: got %v at %v, want %v", what, time.UnixMicro(got.least).Sub(start), got.at, c.want.Sub(start))
		}
	}
}

// A pause of a virtual machine that its clock does not count makes the local estimate of the server's time too early.
// A session with such a time would end for others while its owner counts on it.
func TestASessionIsWrittenAgainIfItsTimeIsTooEarly(t *testing.T) {
	t.Parallel()
	for paused, writes := range map[time.Duration]int{0: 1, time.Minute: 2} {
		t.Run(paused.String(), func(t *testing.T) {
			t.Parallel()
			f := &front{}
			b := f.behind(t)
			id := session.NewID()
			lasts, err := b.Begin(t.Context(), id, b.SessionTraits().MinTTL)
			if err != nil {
				t.Fatal(err)
			}
			if want := b.SessionTraits().MinTTL - 6*time.Second; lasts != want || lasts < 2*time.Second {
				t.Errorf("it lasts %v, want %v", lasts, want)
			}
			b.server.mu.Lock()
			b.server.clock.least -= paused.Microseconds()
			b.server.mu.Unlock()
			before, sent := f.times("UpdateItem"), time.Now() // the server's clock is this machine's
			if _, err := b.Renew(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if n := f.times("UpdateItem") - before; n != writes {
				t.Errorf("it was written %d times, want %d", n, writes)
			}
			o, err := b.server.Get(t.Context(), b.objects.Prefix+"s/"+id.String())
			if behind := sent.Sub(o.Written); err != nil || behind > late+time.Second {
				t.Errorf("the time in it is %v earlier than its write, %v", behind, err)
			}
		})
	}
}

// No request is sent twice, whatever the client's settings: the outcome would be that of the second one.
func TestEachRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	hangs := false
	f := &front{before: func(of string, w http.ResponseWriter) bool {
		if !hangs {
			return false
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
		return true
	}}
	b := f.behind(t)
	if _, err := b.Load(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	hangs = true
	before := f.times("GetItem")
	if _, err := b.Load(t.Context(), "a"); err == nil || store.Definite(err) {
		t.Errorf("%v, want it indeterminate", err)
	}
	if n := f.times("GetItem") - before; n != 1 {
		t.Errorf("sent %d times, want once", n)
	}
}

// A read that may be stale could miss a hold. dynalite has no stale reads.
func TestEachReadIsConsistent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	reads := map[string]int{}
	f := &front{sent: func(of string, in map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		if of == "GetItem" || of == "Scan" {
			reads[of]++
			if in["ConsistentRead"] != true {
				t.Errorf("%s without ConsistentRead", of)
			}
		}
	}}
	b := f.behind(t)
	s := on(t, b)
	storetest.MustHold(t, s, storetest.Mutex(me, "a"))
	storetest.MustList(t, s, "a")
	for _, err := range b.List(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if reads["GetItem"] == 0 || reads["Scan"] == 0 {
		t.Errorf("got %v, want both", reads)
	}
}

// A sweep does not read again what was written lately.
func TestASweepPassesWhatIsYoung(t *testing.T) {
	t.Parallel()
	b := backendOn(t, testserver.SharedDynamoDB(t), apart())
	storetest.MustHold(t, on(t, b), storetest.Mutex(me, "a"))
	for old, want := range map[time.Duration]int{0: 1, time.Hour: 0} {
		n := 0
		for _, err := range b.List(t.Context(), old) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != want {
			t.Errorf("%d names were not written for %v, want %d", n, old, want)
		}
	}
}

func TestAMissingTableAndAWrongKeyAreReported(t *testing.T) {
	t.Parallel()
	c := client(t, testserver.SharedDynamoDB(t))
	other := "other-" + store.NewProcess().String()
	if _, err := c.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: &other, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("name"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("name"), KeyType: types.KeyTypeHash}}}); err != nil {
		t.Fatal(err)
	}
	for table, why := range map[string]string{"elsewhere": "create it", other: "partition key"} {
		s, err := New(c, &Options{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if _, err := s.Ask(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), table) {
			t.Errorf("%s: %v, want ErrUnsupported with %q", table, err, why)
		}
	}
}

// twice sends the next write twice.
type twice struct {
	dynamodb.HTTPClient
	next *atomic.Bool
}

func (d twice) Do(r *http.Request) (*http.Response, error) {
	if operation(r) == "UpdateItem" && d.next.CompareAndSwap(true, false) {
		return objecttest.SentTwice(r, d.HTTPClient.Do)
	}
	return d.HTTPClient.Do(r)
}

// A proxy may send a write twice: the first is done, and the second is refused.
func TestAReleaseThatIsSentTwiceIsNotLost(t *testing.T) {
	t.Parallel()
	o, next := client(t, testserver.SharedDynamoDB(t)).Options(), &atomic.Bool{}
	o.HTTPClient = twice{o.HTTPClient, next}
	b, err := newBackend(dynamodb.New(o), &Options{Table: testserver.DynamoDBTable, Prefix: apart()})
	if err != nil {
		t.Fatal(err)
	}
	s, c := on(t, b), storetest.Mutex(me, "a")
	c.TTL = object.MaxTTL // no renewal is the next write
	h := storetest.MustHold(t, s, c)
	next.Store(true)
	if err := s.Release(t.Context(), h); err != nil || next.Load() {
		t.Errorf("release: %v", err)
	}
}

// Locks do without the right to delete. So only the check tells of it.
func TestTheCheckTriesADelete(t *testing.T) {
	t.Parallel()
	f := &front{before: func(of string, w http.ResponseWriter) bool {
		return of == "DeleteItem" && answer(w, http.StatusBadRequest, `{"__type":"com.amazon.coral.service#AccessDeniedException","message":"as configured"}`)
	}}
	objecttest.CheckDeletes(t, on(t, f.behind(t)).b, store.LevelWarning, "DeleteItem")
}

// A user without rights gets an error that names the rights. dynalite has no users, so the front answers as DynamoDB
// does.
func TestAMissingRightIsReported(t *testing.T) {
	t.Parallel()
	f := &front{before: func(of string, w http.ResponseWriter) bool {
		return answer(w, http.StatusBadRequest, `{"__type": "com.amazon.coral.service#AccessDeniedException", "Message": "User: arn:aws:iam::1:user/x is not authorized to perform: dynamodb:`+of+`"}`)
	}}
	s := on(t, f.behind(t))
	if _, err := s.Ask(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), "dynamodb:UpdateItem") && !strings.Contains(err.Error(), "UpdateItem") {
		t.Errorf("%v, want ErrDenied with the rights", err)
	}
	if all := s.Check(t.Context()); !errors.Is(all[0].Err, store.ErrDenied) {
		t.Errorf("Check: got %+v", all)
	}
}

// The regions of a global table accept writes that undo each other. A global table is accepted only if it is strongly
// consistent. dynalite knows no global tables, so the front answers as DynamoDB does.
func TestTheCheckRefusesAGlobalTable(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		replicas    bool
		consistency string
		old         string // the answer to DescribeGlobalTable; "": dynalite's
		fit         bool
		found       string
	}{
		"of one region":                 {fit: true, found: "in one region"},
		"global":                        {replicas: true},
		"global, eventually consistent": {replicas: true, consistency: "EVENTUAL"},
		"global, strongly consistent":   {replicas: true, consistency: "STRONG", fit: true, found: "strongly"},
		"not global in the way of 2017": {old: `{"__type": "com.amazonaws.dynamodb.v20120810#GlobalTableNotFoundException"}`, fit: true, found: "in one region"},
		"global in the way of 2017":     {old: `{"GlobalTableDescription": {"GlobalTableName": "locks"}}`},
		"perhaps, in the way of 2017":   {old: `{"__type": "com.amazon.coral.service#AccessDeniedException"}`, fit: true, found: "DescribeGlobalTable"},
	} {
		f := &front{
			answer: func(of string, _ http.Header, out map[string]any) {
				if table, is := out["Table"].(map[string]any); is && of == "DescribeTable" && c.replicas {
					table["Replicas"] = []any{map[string]any{"RegionName": "eu-central-1"}}
					if c.consistency != "" {
						table["MultiRegionConsistency"] = c.consistency
					}
				}
			},
			before: func(of string, w http.ResponseWriter) bool {
				if of != "DescribeGlobalTable" || c.old == "" {
					return false
				}
				status := http.StatusOK
				if strings.Contains(c.old, "__type") {
					status = http.StatusBadRequest
				}
				return answer(w, status, c.old)
			},
		}
		found := false
		for _, one := range on(t, f.behind(t)).Check(t.Context()) {
			if one.About == "table" {
				found = true
				if (one.Err == nil) != c.fit || one.Err != nil && !errors.Is(one.Err, store.ErrUnsupported) || !strings.Contains(one.Found, c.found) {
					t.Errorf("%s: got %+v", what, one)
				}
			}
		}
		if !found {
			t.Errorf("%s: Check does not report the table", what)
		}
	}
}

// A write that met one of another region is made again, and is no loss of a session. dynalite is one region, so the
// front answers as DynamoDB does.
func TestAWriteThatMeetsAnotherRegionsIsMadeAgain(t *testing.T) {
	t.Parallel()
	var left atomic.Int32
	f := &front{before: func(of string, w http.ResponseWriter) bool {
		if of != "UpdateItem" || left.Add(-1) < 0 {
			return false
		}
		return answer(w, http.StatusBadRequest, `{"__type": "com.amazonaws.dynamodb.v20120810#ReplicatedWriteConflictException"}`)
	}}
	b := f.behind(t)
	s := on(t, b)
	storetest.MustHold(t, s, storetest.Mutex(me, "a")) // the trial and the session are there
	id := session.NewID()
	left.Store(1)
	if _, err := b.Begin(t.Context(), id, b.SessionTraits().MinTTL); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		left.Store(1)
		if _, err := b.Renew(t.Context(), id); err != nil {
			t.Errorf("a renewal: %v", err)
		}
		left.Store(1)
		storetest.MustHold(t, s, storetest.Mutex(me, rand.Text()))
	}
}

// A record of a newer release, and an item that is not of holdfast, are reported and not changed.
func TestAForeignItemIsReportedAndNotChanged(t *testing.T) {
	t.Parallel()
	b := backendOn(t, testserver.SharedDynamoDB(t), apart())
	s := on(t, b)
	for name, c := range map[string]struct {
		item item
		want error
	}{
		"newer":   {item{"v": number(form + 1), "rev": text("x"), "data": binary([]byte("x"))}, store.ErrUnsupported},
		"foreign": {item{"owner": text("somebody")}, store.ErrCorrupt},
	} {
		c.item["id"] = binary([]byte(b.nameKey(name)))
		if _, err := b.server.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &b.server.table, Item: c.item}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Poll(t.Context(), storetest.Mutex(me, name)); !errors.Is(err, c.want) {
			t.Errorf("%s: a poll: %v, want %v", name, err, c.want)
		}
		if a, err := s.Ask(t.Context(), storetest.Mutex(me, name)); a.Granted || !errors.Is(err, c.want) {
			t.Errorf("%s: an ask: got %+v, %v, want %v", name, a, err, c.want)
		}
	}
}

func TestBadInputIsAnErrorBeforeAnyIO(t *testing.T) {
	s := on(t, backendOn(t, "127.0.0.1:1", "a")) // nothing listens there
	ok := storetest.Mutex(me, "a")
	for what, spoil := range map[string]func(*store.Claim){
		"no name":     func(c *store.Claim) { c.Name = "" },
		"a long name": func(c *store.Claim) { c.Name = strings.Repeat("x", store.MaxName+1) },
		"a short TTL": func(c *store.Claim) { c.TTL = object.MinTTL + late - 1 },
		"a long TTL":  func(c *store.Claim) { c.TTL = object.MaxTTL + 1 },
	} {
		c := ok
		spoil(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: ask: %v, want ErrInvalid", what, err)
		}
	}
	for _, o := range []Options{{Table: "ab"}, {Table: strings.Repeat("x", 256)}, {Table: "a/b"}, {Prefix: "ü"}, {Prefix: strings.Repeat("x", 65)}} {
		if _, err := New(s.b.server.client, &o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", o, err)
		}
	}
	if _, err := New(nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a client: %v, want ErrInvalid", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Patience)
	defer cancel()
	if _, err := s.Ask(ctx, ok); err == nil || store.Definite(err) {
		t.Errorf("without a server: %v, want it indeterminate", err)
	}
}
