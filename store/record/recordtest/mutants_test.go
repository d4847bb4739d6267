package recordtest_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The memory with one thing wrong fails the promise that it breaks.
func TestTheTestsCatchEachMutantOfAMemory(t *testing.T) {
	t.Parallel()
	const (
		full      = "TestMemory"
		little    = "TestMemoryThatCanDoLittle"
		apart     = "TestMemoryWithRequestsApart"
		clockless = "TestMemoryWithoutAClock"
		begun     = "m.sessions[id] = &life{ttl: time.Hour, expires: store.Now().Add(time.Hour), ended: make(chan struct{})}"
		others    = "m.mu.Unlock()\ntime.Sleep(2 * time.Millisecond)\nm.mu.Lock()" // come between
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, promise, mark string
		do                  mutant.Op
		in                  string // TestMemory if empty
	}{
		// Watching
		{"a watcher is not notified", "who watches a record hears of each swap of it", "recordtest-watched", mutant.Delete(), ""},
		{"a watcher is notified of all records", "a watcher of a record is notified of no other", "recordtest-watches-that-name", mutant.Cond("again == nil || l.client == again"), ""},
		{"a watcher watches forever", "a watcher that has stopped is notified of nothing", "recordtest-watches-for-ever", mutant.Delete(), ""},
		{"a watcher is not notified of a new connection", "after a new connection each watcher is notified", "recordtest-watches-again", mutant.Delete(), ""},
		// Reading
		{"a read creates a version", "to read a name writes nothing", "recordtest-load-data", mutant.After("n.version = m.next()\nr.Version = n.version"), ""},
		{"a name that was never written has data", "a name never written reads as nothing", "recordtest-load-data", mutant.After("if n.version == \"\" {\nr.Data = []byte(\"{}\")\n}"), ""},
		{"a read is behind", "every process reads what was just written", "recordtest-load-data", mutant.After("if string(n.data) == \"three\" {\nr.Data = []byte(\"two\")\n}"), ""},
		{"a note is read only after the next", "every process reads the notes just left", "recordtest-oldest-notes", mutant.Value("n.inbox[:max(0, len(n.inbox)-1)]"), ""},
		{"the newest note is read first", "notes are read in the order they came", "recordtest-notes-in-order", mutant.Stmt("notes = append([]record.Note{x.Note}, notes...)"), ""},
		{"the newest notes are read", "of many notes the oldest are read and More is true", "recordtest-oldest-notes", mutant.Value("n.inbox[max(0, len(n.inbox)-maxInbox):]"), ""},
		{"that there are more notes is not reported", "of many notes the oldest are read and More is true", "recordtest-more", mutant.Value("false"), ""},
		{"there are always more notes", "of many notes the oldest are read and More is true", "recordtest-more", mutant.Value("true"), ""},
		{"data ends with a zero", "data comes back byte for byte", "recordtest-load-data", mutant.Value("bytes.Clone(bytes.SplitN(n.data, []byte{0}, 2)[0]), n.version"), ""},
		{"notes lose spaces", "notes come back byte for byte", "recordtest-notes-in-order", mutant.Before("x.Data = bytes.TrimSpace(x.Data)"), ""},
		{"names are of one case", "names of any bytes are kept apart", "recordtest-name-as-given", mutant.Value("m.names[string(bytes.ToLower([]byte(what)))]"), ""},
		{"names lose trailing zeros", "names of any bytes are kept apart", "recordtest-name-as-given", mutant.Value("m.names[string(bytes.TrimRight([]byte(what), \"\\x00\"))]"), ""},
		{"names lose trailing spaces", "names of any bytes are kept apart", "recordtest-name-as-given", mutant.Value("m.names[string(bytes.TrimRight([]byte(what), \" \"))]"), ""},
		{"the inbox is read last", "a note is in the inbox or taken in", "recordtest-inbox-first", mutant.Stmt("time.Sleep(5 * time.Millisecond)\nagain, err := send(ctx, c, Request{Op: OpInbox, Name: name}, func() record.Record { return c.m.load(name, false, true) })\nif err != nil {\nreturn r, err\n}\nr.Inbox, r.More = again.Inbox, again.More"), apart},
		{"the clock leaps", "the clock is that of the server", "recordtest-clock", mutant.Return("m.epoch + m.age().Microseconds() + int64(m.version)*60_000_000"), ""},
		{"the clock stands still", "the clock is that of the server", "recordtest-clock", mutant.Return("0"), ""},

		{"without the inbox a record is old", "without the inbox the record is read as before", "recordtest-peeks", mutant.Before("if r := c.m.load(name, true, false); string(r.Data) == \"two\" {\nr.Data = []byte(\"one\")\nreturn r, nil\n}"), apart},
		{"the newest note is reported for the oldest", "the oldest note is there until it is taken in", "recordtest-oldest", mutant.Return("r.Inbox[len(r.Inbox)-1], nil"), apart},
		{"one note alone is none", "the oldest note is there until it is taken in", "recordtest-oldest", mutant.Before("if len(r.Inbox) == 1 {\nreturn record.Note{}, nil\n}"), apart},

		// Swapping
		{"a swap on no version overwrites", "a swap on no version is done only where nothing is", "recordtest-swap-depends", mutant.Cond("s.Old.Version != \"\" && n.version != s.Old.Version || !n.has(s.Old.Inbox)"), ""},
		{"a swap depends on no version", "a swap on an older version is refused", "recordtest-swap-depends", mutant.Cond("!n.has(s.Old.Inbox)"), ""},
		{"a swap on a later version is done", "a swap on the version of another record is refused", "recordtest-swap-depends", mutant.Cond("n.version > s.Old.Version || !n.has(s.Old.Inbox)"), ""},
		{"a swap is refused although no other wrote", "a swap on what is there is done", "recordtest-swap-depends", mutant.Cond("WAS || string(s.Data) == \"two\""), ""},
		{"a refused swap creates a version", "a refused swap changes nothing", "recordtest-refused-tells", mutant.Before("m.made(s.Name).version = m.next()"), ""},
		{"a refused swap takes notes in", "a refused swap changes nothing", "recordtest-refused-tells", mutant.Before("m.made(s.Name).inbox = nil"), ""},
		{"others write between the read and the write", "of many swaps on one version one is done", "recordtest-new-version", mutant.Before(others), ""},
		{"others write a new name between the read and the write", "of many first swaps of a name one is done", "recordtest-new-version", mutant.Before(others), ""},
		{"others write between, and are overwritten", "no swap is lost among many", "recordtest-new-version", mutant.Before(others), ""},
		{"the same data is the same version", "each swap makes a new version", "recordtest-new-version", mutant.Stmt("if !bytes.Equal(n.data, s.Data) {\nn.version = m.next()\n}\nn.data = bytes.Clone(s.Data)"), ""},
		{"a version is of the data", "a version is never used again", "recordtest-new-version", mutant.Value("bytes.Clone(s.Data), strconv.Itoa(len(s.Data))+\"x\"+string(s.Data)"), ""},
		{"the data is compared", "a swap on a version is refused though the data is the same", "recordtest-swap-depends", mutant.Cond("n.version != s.Old.Version && !bytes.Equal(n.data, s.Old.Data) || !n.has(s.Old.Inbox)"), ""},
		{"a swap takes all notes in", "a swap takes in the notes of its inbox and no other", "recordtest-takes-in", mutant.Value("m.inbox(n)"), ""},
		{"a swap takes no note in", "a done swap returns the inbox as it is", "recordtest-takes-in", mutant.Value("s.Old.Inbox[:0]"), ""},
		{"a swap takes notes in twice", "a swap whose notes were taken in is refused", "recordtest-swap-depends", mutant.Cond("n.version != s.Old.Version"), ""},
		{"a swap takes some of its notes in", "a swap with one note too many takes in none", "recordtest-swap-depends", mutant.Cond("n.version != s.Old.Version || len(s.Old.Inbox) > 0 && !n.has(s.Old.Inbox[:1])"), ""},
		{"a done swap returns the version before", "a done swap returns its version", "recordtest-done-tells-version", mutant.Value("s.Old.Version"), ""},
		{"a done swap returns the inbox before", "a done swap returns the inbox as it is", "recordtest-done-tells-version", mutant.After("out.Now.Inbox = s.Old.Inbox"), ""},
		{"a refused swap returns its own input", "a refused swap returns what is there", "recordtest-refused-tells", mutant.Value("s.Old"), ""},
		{"a swap is done twice", "a swap that was done is refused when it comes again", "recordtest-swap-depends", mutant.Cond("(WAS) && !bytes.Equal(n.data, s.Data)"), ""},
		{"a late swap is done", "a swap that comes late is refused", "recordtest-swap-depends", mutant.Cond("(WAS) && string(s.Data) != \"late\""), ""},
		{"a late first swap is done", "a first swap that comes late is refused", "recordtest-swap-depends", mutant.Cond("(WAS) && (s.Old.Version != \"\" || string(s.Data) != \"late\")"), ""},
		{"a held swap is done", "a swap held on its way is never done after another", "recordtest-swap-depends", mutant.Cond("(WAS) && string(s.Data) != \"late\""), ""},
		{"a held swap is done after another on its version", "a swap held on its way is done if no other was", "recordtest-swap-depends", mutant.Cond("(WAS) && string(s.Data) != \"new\""), ""},
		{"a swap is done again on a version that is no longer the newest", "a swap whose reply is lost is done once", "recordtest-swap-depends", mutant.Cond("(WAS) && string(s.Data) != \"again\""), ""},
		{"the largest record is one byte shorter", "the largest record is written", "recordtest-max-record", mutant.Cond("WAS || len(s.Data) == c.m.o.MaxRecord"), ""},

		// Idle
		{"an idle record is deleted at once", "an idle record is there for its retention", "recordtest-retention", mutant.Cond("n.idle && m.o.Retention < time.Minute"), ""},
		{"a used record stays idle", "a record that is used again stays", "recordtest-idle", mutant.Value("n.idle || s.Idle, m.age()"), ""},
		{"a used record is not listed", "what is not written is not listed", "recordtest-idle", mutant.Value("n.idle || s.Idle, m.age()"), ""},
		{"versions begin again", "no version comes back with a name that was deleted", "recordtest-version-after-retention", mutant.Stmt("n.data, n.version, n.idle, m.version = nil, \"\", false, 0"), ""},
		{"an idle record reads as nothing", "an idle record is swapped as any other", "recordtest-load-data", mutant.After("if n.idle {\nr.Data, r.Version = nil, \"\"\n}"), ""},

		// Joining
		{"a join leaves nothing", "a refused swap joins", "recordtest-joins-all", mutant.Value("j.Notes[:0]"), ""},
		{"a join leaves the first note", "the largest join is done as a whole and in order", "recordtest-joins-all", mutant.Value("j.Notes[:1]"), ""},
		{"a swap that was refused before does nothing", "a swap that was refused before joins", "recordtest-lost-joins", mutant.Before("if s.Lost {\nreturn out, nil\n}"), apart},
		{"a done swap joins", "a done swap does not join", "recordtest-done-joins-not", mutant.Cond("err != nil || s.Join == nil || !c.m.o.Apart"), apart},
		{"a join goes first", "notes are read in the order they came", "recordtest-joins-behind", mutant.Stmt("n.inbox = append([]left{{note, j.Session}}, n.inbox...)"), ""},
		{"a join creates a version", "a join changes no version", "recordtest-joins-behind", mutant.After("n.version = m.next()"), ""},
		{"a join refuses a swap", "a join disturbs no swap under way", "recordtest-swap-depends", mutant.Cond("WAS || len(n.inbox) > len(s.Old.Inbox)"), ""},
		{"a join returns no inbox", "a join returns the inbox", "recordtest-refused-tells", mutant.Value("m.read(m.at(s.Name), true, false)"), ""},
		{"a join fails while others write", "joins never fail beside many swaps", "recordtest-refused-joins", mutant.Cond("(WAS) && m.version%5 != 0"), ""},
		{"a write loses a note", "a note stays until it is taken in", "recordtest-takes-in", mutant.Before("if len(n.inbox) > 0 && len(s.Old.Inbox) == 0 {\nn.inbox = n.inbox[1:]\n}"), ""},
		{"two names have one inbox", "notes of one name are no other's", "recordtest-joins-name", mutant.Value("m.made(string(bytes.TrimRight([]byte(what), \"/\")))"), ""},
		{"a join on an idle record creates a version", "a join on an idle record is done", "recordtest-joins-behind", mutant.After("if n.idle {\nn.version = m.next()\n}"), ""},
		{"no call voids a join", "a join with an older count of calls is not done", "recordtest-join-of-called", mutant.Cond("false"), ""},
		{"no call voids a join under way", "a join is void once a call is answered", "recordtest-join-of-called", mutant.Before("if j.Calls < l.calls {\nm.mu.Unlock()\ntime.Sleep(20 * time.Millisecond)\nm.mu.Lock()\nl.calls = j.Calls\n}"), ""},
		{"no call voids a join that was held", "a join held on its way is void after a call", "recordtest-join-of-called", mutant.Cond("false"), ""},
		{"a session that was called joins no longer", "a join with the present count of calls is done", "recordtest-join-of-called", mutant.Cond("l.calls > 0"), ""},
		{"a join may know of more calls than there were", "a join with a count of calls to come is not done", "recordtest-join-of-called", mutant.Cond("l.calls > j.Calls"), ""},
		{"a call counts for all sessions", "a call of another session voids no join", "recordtest-call", mutant.After("for _, other := range m.sessions {\nif other != l {\nother.calls++\n}\n}"), ""},
		{"an ended session joins", "a join of an ended session is not done", "recordtest-join-session", mutant.Value("m.sessions[j.Session]"), ""},
		{"a lapsed session joins", "a join of a lapsed session is not done", "recordtest-join-session", mutant.Value("m.sessions[j.Session]"), ""},
		{"a lapsed session joins late", "a join held on its way is void after the end", "recordtest-join-session", mutant.Value("m.sessions[j.Session]"), ""},
		{"a join begins a session", "a join of no session is not done", "recordtest-join-of-ended", mutant.First("if id := j.Session; m.sessions[id] == nil {\n" + begun + "\nreturn m.join(what, j)\n}"), ""},
		{"a call takes notes", "a call after a join leaves its note", "recordtest-call", mutant.After("for _, n := range m.names {\nn.inbox = nil\n}"), ""},
		{"the end of one session takes all notes", "the end of a session takes no other's notes", "recordtest-end-removes-own-notes", mutant.Stmt("n.inbox = nil"), ""},
		{"a join depends on its session", "a join is done whatever its session", "recordtest-join-depends", mutant.Cond("true"), little},
		{"a join that comes twice is refused", "a join that comes twice is no error", "recordtest-join-again", mutant.First("return false"), ""},
		{"a held join is done twice", "a swap held on its way joins at most once", "recordtest-joins-behind", mutant.After("x := left{note, j.Session}\nx.Version = m.next()\nn.inbox = append(n.inbox, x)"), ""},
		{"a join is done by itself later", "a join whose reply is lost is done", "recordtest-joins-behind", mutant.After("time.AfterFunc(20*time.Millisecond, func() {\nm.mu.Lock()\ndefer m.mu.Unlock()\nn.inbox = append(n.inbox, left{note, j.Session})\n})"), ""},

		// Notifying
		{"a notification has no session", "a notification comes with all its fields", "recordtest-notification-whole", mutant.Stmt("l.sink(record.Notification{Name: n.Name, ID: n.ID, Token: n.Token, N: n.N})"), ""},
		{"one process is notified", "notifications of one swap go to each process", "recordtest-notifies-all", mutant.Value("all[:min(1, len(all))]"), ""},
		{"some are notified of a crowd", "three hundred processes are notified by one swap", "recordtest-notifies-all", mutant.Value("all[:min(256, len(all))]"), ""},
		{"it is notified before the record", "no notification comes before its record", "recordtest-new-version", mutant.Before("m.mu.Unlock()\nm.notify(s.Notifications)\ntime.Sleep(20 * time.Millisecond)\nm.mu.Lock()"), ""},
		{"a refused swap sends notifications", "a refused swap sends no notification", "recordtest-refused-notifies", mutant.After("m.notify(s.Notifications)"), ""},
		{"a held swap that is refused sends notifications", "a swap held on its way notifies only if it was done", "recordtest-refused-notifies", mutant.After("m.notify(s.Notifications)"), ""},
		{"Listen starts later", "no notification is missed once Listen has returned", "recordtest-listens", mutant.Stmt("time.AfterFunc(100*time.Millisecond, func() {\nc.m.mu.Lock()\ndefer c.m.mu.Unlock()\nc.m.listening[l] = true\n})"), ""},
		{"a failed Listen goes on", "a Listen that failed delivers nothing and can be repeated", "recordtest-failed-listen-ends", mutant.Delete(), ""},
		{"no process is notified after a new connection", "after a new connection all are notified", "recordtest-connected-again", mutant.Value("all[:0]"), ""},
		{"a process that does not listen blocks the others", "who does not listen delays nobody", "recordtest-notifies-those", mutant.Before("if len(to) == 0 {\nreturn\n}"), ""},
		{"all processes get all notifications", "no process is notified for another", "recordtest-notifies-process", mutant.Cond("true"), ""},
		{"without notifications Listen succeeds", "without notifications Listen says so", "recordtest-quiet", mutant.Return("nil"), little},

		// Listing
		{"some are listed", "each name that was written is listed once", "recordtest-lists-all", mutant.Value("all[:min(200, len(all))]"), ""},
		{"each is listed twice", "each name that was written is listed once", "recordtest-lists-all", mutant.Value("append(all, all...)"), ""},
		{"an old record is not listed", "what was not written for long is listed", "recordtest-lists", mutant.Cond("(WAS) && unwritten == 0"), ""},
		{"a listing takes the connection", "a name is written while names are listed", "recordtest-lists-all", mutant.Before("c.Cut()\ndefer c.Mend()"), ""},
		{"a listing does not end", "a listing ends when its caller stops", "recordtest-list-ends", mutant.Stmt("yield(record.Named{Name: name, Record: c.m.load(name, true, true)}, nil)"), ""},

		// Sessions
		{"a renewal renews nothing", "a session that is renewed goes on", "recordtest-renew", mutant.Delete(), ""},
		{"a session ends at half its time", "a session ends no earlier than it lasts", "recordtest-session-expires", mutant.Cond("store.Now() >= l.expires.Add(-l.ttl/2)"), ""},
		{"a renewed session ends at half its time", "a session that was renewed lasts from there on", "recordtest-renew", mutant.Value("store.Now().Add(l.ttl / 2)"), ""},
		{"Left returns too much", "a session ends no earlier than it lasts", "recordtest-left", mutant.Value("l.expires.Sub(store.Now()) + time.Second"), ""},
		{"a session never ends", "a session that is not renewed ends", "recordtest-session-expires", mutant.Cond("false"), ""},
		{"the longest TTL is not granted", "sessions are begun with each TTL of the range", "recordtest-ttl-range", mutant.Cond("ttl < m.o.MinTTL || ttl >= m.o.MaxTTL"), ""},
		{"a session is reported to last longer", "sessions are begun with each TTL of the range", "recordtest-lasts", mutant.Return("ttl + 1, failed(err, a.err)"), ""},
		{"one end ends all sessions", "the end of a session ends no other", "recordtest-end-is-final", mutant.After("for _, other := range m.sessions {\nother.over = true\n}"), ""},
		{"an ended session is renewed", "a renewal of a session that was ended is lost", "recordtest-renew-of-living", mutant.Value("m.sessions[id]"), ""},
		{"a lapsed session is renewed", "a renewal of a session that has lapsed is lost", "recordtest-renew-of-living", mutant.Value("m.sessions[id]"), ""},
		{"a renewal begins a session", "a renewal of no session is lost and begins none", "recordtest-renew-of-nothing", mutant.First("if m.sessions[id] == nil {\n" + begun + "\nreturn 0, m.server, nil\n}"), ""},
		{"a renewal that is given up ends the session", "a renewal that was given up does no harm", "recordtest-context-first", mutant.First("if q.Op == OpRenew {\nc.m.stop(q.Session)\n}"), ""},
		{"a renewal whose reply is lost ends the session", "a renewal whose reply is lost does no harm", "recordtest-answer-lost", mutant.First("if q.Op == OpRenew {\nc.m.stop(q.Session)\n}"), ""},
		{"no server is reported", "a begin and a renewal return which server it is", "recordtest-server", mutant.Delete(), ""},
		{"each connection reports another server", "a begin and a renewal return which server it is", "recordtest-server", mutant.After("c.server.Store(time.Now().UnixNano())"), ""},
		{"a server is known by its calls", "a begin and a renewal return which server it is", "recordtest-server", mutant.After("c.server.Add(a.calls)"), ""},
		{"a renewal returns no calls", "a renewal returns how often its session was called", "recordtest-renew-tells-calls", mutant.Return("0, m.server, nil"), ""},
		{"a renewal returns calls only once", "calls of many processes are all counted", "recordtest-renew-tells-calls", mutant.Stmt("calls = l.calls\nl.calls = 0\nreturn calls, m.server, nil"), ""},
		{"a call renews", "a call does not renew", "recordtest-call", mutant.After("l.expires = store.Now().Add(l.ttl)"), ""},
		{"a call revives a session", "a call of an ended session is no error", "recordtest-call-of-nothing", mutant.Before("if l := m.sessions[id]; l != nil && l.over {\nl.over = false\nl.ended = make(chan struct{})\n}"), ""},
		{"a call begins a session", "a call of no session begins none", "recordtest-call-of-nothing", mutant.Before("if m.sessions[id] == nil {\n" + begun + "\n}"), ""},
		{"a session whose begin was not answered stays", "a session whose begin was not answered ends", "recordtest-answer-lost", mutant.First("if q.Op == OpBegin {\nc.m.mu.Lock()\nc.m.sessions[q.Session].expires = store.Now().Add(time.Hour)\nc.m.mu.Unlock()\n}"), ""},
		{"an end does nothing", "a session that was ended has ended for all", "recordtest-end", mutant.Delete(), ""},
		{"a repeated end revives a session", "a session can be ended again", "recordtest-end", mutant.Before("if l.over {\nl.over, l.ended, l.expires = false, make(chan struct{}), store.Now().Add(time.Hour)\nreturn\n}"), ""},
		{"an end of a lapsed session revives it", "a session that has lapsed can be ended", "recordtest-end", mutant.Before("if l.over {\nl.over, l.ended, l.expires = false, make(chan struct{}), store.Now().Add(time.Hour)\nreturn\n}"), ""},
		{"an end is not reported", "the end of a session is awaited", "recordtest-end-told", mutant.Delete(), ""},
		{"a lapse is not reported", "the end of a session that lapses is awaited", "recordtest-await-lapse", mutant.Value("time.NewTimer(until.Sub(store.Now()) + time.Hour)"), ""},
		{"Await of an ended session waits", "to await a session that has ended takes no time", "recordtest-await-ended", mutant.Return("make(chan struct{}), store.Now().Add(time.Hour)"), ""},
		{"Await ignores its context", "to await a session ends with its context", "recordtest-await-context", mutant.First("time.Sleep(time.Minute)"), ""},
		{"Await succeeds without reports of the end", "without a report of the end Await says so", "recordtest-silent", mutant.Return("nil"), little},
		{"Left answers in the reverse order", "Left answers in the order of what it was asked", "recordtest-left", mutant.Stmt("out[len(ids)-1-i] = max(l.expires.Sub(store.Now()), 1)"), ""},
		{"Left answers for a hundred", "Left of many is answered", "recordtest-left-in-order", mutant.Value("ids[:min(len(ids), 100)]"), ""},
		{"Left of nothing has one", "Left of nothing is nothing", "recordtest-left-in-order", mutant.Before("if len(ids) == 0 {\nreturn make([]time.Duration, 1)\n}"), ""},
		{"Left of a session that was never begun is positive", "Left of what was never begun is an end", "recordtest-left-of-nothing", mutant.First("out[i] = 1"), ""},
		{"Left changes its answer about an ended session", "what Left called ended stays so for every process", "recordtest-left-of-living", mutant.Cond("l != nil && l.expires.Sub(store.Now()) > l.ttl/2"), ""},
		{"Left does not end a session that it calls ended", "no renewal is answered once Left said it has ended", "recordtest-left-of-living", mutant.Cond("l != nil && l.expires.Sub(store.Now()) > l.ttl/2"), ""},
		{"a held renewal revives a session", "a renewal held until Left said it has ended is lost", "recordtest-renew-of-living", mutant.Stmt("l := m.sessions[id]\nif l != nil && l.over {\nl.over, l.ended = false, make(chan struct{})\n}"), ""},
		{"Left calls a renewed session ended", "a session that was renewed has not ended for Left", "recordtest-renew", mutant.Value("store.Now()"), ""},

		// … by the clock of who asks
		{"a stamp does not change", "a session that is renewed goes on", "recordtest-renew-stamps", mutant.Delete(), clockless},
		{"a stamp changes each time", "a session that is not renewed ends", "recordtest-stamp", mutant.Return("stamped{l.ttl, m.next()}"), clockless},
		{"no session is closed", "a session that is not renewed ends", "recordtest-closes-unchanged", mutant.Cond("false"), clockless},

		// Ending
		{"an ended context is ignored", "a call returns when its context ends", "recordtest-context-first", mutant.Cond("false"), ""},
		{"a call to a frozen server waits", "a call to a frozen server returns with its context", "recordtest-context", mutant.Stmt("<-c.ctx.Done()"), ""},
		{"Close waits for a frozen server", "Close of a backend on a frozen server returns", "recordtest-close", mutant.Before("if c.met(Request{Op: OpEnd}) == Hangs {\nselect {}\n}"), ""},
		{"Close does not end Await", "Close ends what awaits", "recordtest-close-ends-await", mutant.First("time.Sleep(time.Minute)"), ""},
		{"Close does not end Listen", "Close ends what listens", "recordtest-close-ends-listen", mutant.Cond("false"), ""},
		{"the description of a backend changes", "a backend describes itself the same each time", "recordtest-traits", mutant.Before("if c.m.version > 0 {\nreturn record.Traits{Void: o.Void, MaxRecord: 1, Retention: 1}\n}"), ""},
	} {
		test := m.in
		if test == "" {
			test = full
		}
		all = append(all, mutant.Broken{
			Name: m.name, Pkg: "store/record/recordtest", Test: test + "/promise/" + strings.ReplaceAll(m.promise, " ", "_"),
			Edits: []mutant.Edit{mutant.At(m.mark, m.do)},
		})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=2s")
}
