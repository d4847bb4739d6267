package mysqlstore

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A Galera cluster does not behave like a single server, so the check must not report ok.
func TestAGaleraClusterIsWarnedOf(t *testing.T) {
	if all := checkGalera(0); len(all) != 0 {
		t.Errorf("a plain server: got %+v, want no finding", all)
	}
	if all := checkGalera(3); len(all) != 1 || !all[0].Warning {
		t.Errorf("three nodes: got %+v, want a warning", all)
	}
}

// A MySQL group in which all members accept writes is refused; a group with one primary is like a server with replicas.
func TestAGroupWithManyPrimariesIsRefused(t *testing.T) {
	t.Parallel()
	db := dbOn(t, testserver.MariaDBDSN(testserver.MySQL9(t).Addr))
	s := storeOn(t, db, nil)
	defer s.Close()
	reported := func() []store.Finding {
		return slices.DeleteFunc(s.Check(t.Context()), func(f store.Finding) bool { return f.About != "Group Replication" })
	}
	if all := reported(); len(all) != 0 {
		t.Errorf("a plain server: got %+v, want no finding", all)
	}
	mustExec(t, db, "INSTALL PLUGIN group_replication SONAME 'group_replication.so'")
	if all := reported(); len(all) != 0 {
		t.Errorf("without a group: got %+v, want no finding", all)
	}
	mustExec(t, db, "SET GLOBAL group_replication_group_name='6ba7b810-9dad-11d1-80b4-00c04fd430c8'")
	if all := reported(); len(all) != 0 {
		t.Errorf("one primary: got %+v, want no finding", all)
	}
	mustExec(t, db, "SET GLOBAL group_replication_single_primary_mode=OFF")
	if all := reported(); len(all) != 1 || !errors.Is(all[0].Err, store.ErrUnsupported) {
		t.Errorf("many primaries: got %+v, want ErrUnsupported", all)
	}
}

// galeraStores returns a store on each of two nodes, whose table exists on both.
func galeraStores(t *testing.T) (nodes []*testserver.Server, stores []*Store) {
	t.Helper()
	nodes = testserver.Galera(t, 2)
	for _, node := range nodes {
		s := storeOn(t, dbOn(t, testserver.MariaDBDSN(node.Addr)), nil)
		t.Cleanup(func() { s.Close() })
		stores = append(stores, s)
	}
	if err := stores[0].Release(t.Context(), mustHold(t, stores[0], mutex("first"))); err != nil {
		t.Fatal(err)
	}
	if all := stores[0].Check(t.Context()); !slices.ContainsFunc(all, func(f store.Finding) bool { return f.About == "Galera" && f.Warning }) {
		t.Errorf("Check does not warn of Galera: got %+v", all)
	}
	return nodes, stores
}

// When two nodes write at once, certification rejects one of the writes and that node reports it as not applied.
func TestTwoNodesOfGaleraNeverGrantOneNameTwice(t *testing.T) {
	testserver.AtNight(t)
	nodes, _ := galeraStores(t)
	const each = 100 // grants on a node
	var inside atomic.Int64
	var newest uint64 // the newest token of those who got in
	var all sync.WaitGroup
	for _, node := range nodes {
		var grants atomic.Int64
		for range 3 {
			all.Go(func() {
				s := storeOn(t, dbOn(t, testserver.MariaDBDSN(node.Addr)), nil)
				defer s.Close()
				of := store.NewProcess()
				for grants.Load() < each && !t.Failed() {
					c := storetest.Mutex(of, "n")
					var a store.Answer
					for !a.Granted && !t.Failed() {
						var err error
						if a, err = s.Ask(t.Context(), c); errors.Is(err, store.ErrLost) {
							c.ID = of.NewID()
						} else if err != nil && store.Definite(err) {
							t.Error(err)
						}
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d claims hold the lock", n)
					}
					if token := uint64(a.Token); token <= newest {
						t.Errorf("got token %d after %d, want a larger one", token, newest)
					} else {
						newest = token
					}
					grants.Add(1)
					inside.Add(-1)
					h := store.Hold{Name: "n", ID: c.ID, Token: a.Token, TTL: c.TTL}
					endHold(t, s, h)
				}
			})
		}
	}
	all.Wait()
}

// A node that applies nothing for longer than a TTL reads only old renewals. It takes nothing over: its write would have to be the first, and
// certification denies that.
func TestALaggingGaleraNodeTakesNothingOver(t *testing.T) {
	testserver.AtNight(t)
	nodes, stores := galeraStores(t)
	c := mutex("n")
	c.TTL, c.PositionTTL = time.Second, time.Second
	h := mustHold(t, stores[0], c)
	waits := mutex("n")
	until(t, "the other node refuses a claim", func() bool { a, err := stores[1].Ask(t.Context(), waits); return err == nil && !a.Granted })
	behind, err := dbOn(t, testserver.MariaDBDSN(nodes[1].Addr)).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close()
	must := func(statement string) {
		t.Helper()
		if _, err := behind.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	must("FLUSH TABLES WITH READ LOCK") // the writes of the other node are not applied
	var asking sync.WaitGroup
	var released atomic.Bool
	asking.Go(func() {
		for {
			before := released.Load()
			a, err := stores[1].Ask(t.Context(), waits)
			switch {
			case err == nil && a.Granted && !before:
				// The hold may have been released while this request was under way.
				if !released.Load() {
					t.Error("the lagging node granted the lock")
				}
				return
			case err == nil && a.Granted:
				return
			case errors.Is(err, store.ErrLost): // its queue position was not renewed for long
				waits.ID = me.NewID()
			case t.Failed():
				return
			}
		}
	})
	renew := func(n int) {
		for range n {
			if r := stores[0].Renew(t.Context(), []store.Hold{h})[0]; r.Err != nil && (store.Definite(r.Err) || errors.Is(r.Err, store.ErrLost)) {
				t.Errorf("renewal: %v", r.Err)
			}
			time.Sleep(100 * time.Millisecond) // a TTL is ten of these
		}
	}
	renew(30)
	must("UNLOCK TABLES")
	renew(20)
	released.Store(true)
	endHold(t, stores[0], h)
	asking.Wait()
}

// endHold releases a hold, also by a call that is not answered.
func endHold(t *testing.T, s store.Store, h store.Hold) {
	for !t.Failed() {
		if err := s.Release(t.Context(), h); err == nil || errors.Is(err, store.ErrLost) {
			return
		}
	}
}
