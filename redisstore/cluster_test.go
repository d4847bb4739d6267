package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// clusterClient returns a client of the cluster. The test closes it at its end.
func clusterClient(t testing.TB, servers []*testserver.Server, edit ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	o := &redis.ClusterOptions{ReadTimeout: 10 * time.Second} // the machine may stall
	for _, s := range servers {
		o.Addrs = append(o.Addrs, s.Addr)
	}
	for _, f := range edit {
		f(o)
	}
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestOnAClusterTheWholeContractHolds(t *testing.T) {
	t.Parallel()
	servers := testserver.RedisCluster(t, 3)
	client := clusterClient(t, servers)
	storetest.Run(t, func(t *testing.T) store.Store { return storeOn(t, client, nil) })

	// The user has the rights that the package comment lists. They suffice for a cluster too.
	for _, server := range servers {
		user(t, server, "locks", append(rights(t), "+cluster|slots", "+command")...)
	}
	least := redis.NewClusterClient(&redis.ClusterOptions{Addrs: client.Options().Addrs, Username: "locks", Password: secret, ReadTimeout: client.Options().ReadTimeout})
	t.Cleanup(func() { least.Close() })
	l := storeOn(t, least, nil)
	defer l.Close()
	if err := l.Watch(t.Context(), me, func(store.Notification) {}); err != nil {
		t.Errorf("with the least rights: %v", err)
	}
	for i := range 20 {
		h := mustHold(t, l, mutex(fmt.Sprint("least ", i)))
		if err := l.Release(t.Context(), h); err != nil {
			t.Errorf("with the least rights: %v", err)
		}
	}
	for _, err := range l.List(t.Context(), "") {
		if err != nil {
			t.Errorf("with the least rights: %v", err)
		}
	}
	for _, server := range servers {
		for _, d := range denials(t, server) {
			if !strings.HasPrefix(d, "command client|") {
				t.Errorf("%s refused %s", server.Addr, d)
			}
		}
	}

	s := storeOn(t, client, nil)
	defer s.Close()
	var holds []store.Hold
	for i := range 60 {
		holds = append(holds, mustHold(t, s, mutex(fmt.Sprint("name ", i))))
	}
	if len(s.lanes) != len(servers) {
		t.Errorf("got %d lanes to %d servers", len(s.lanes), len(servers))
	}
	for i, r := range s.Renew(t.Context(), holds) {
		if r.Err != nil {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
	listed := map[string]bool{}
	for st, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		listed[st.Name] = true
	}
	for _, h := range holds {
		if !listed[h.Name] {
			t.Errorf("the list of all names lacks %q", h.Name)
		}
	}

	// A frozen server fails the names that it keeps, and delays no other name.
	servers[0].Freeze()
	frozen := make([]bool, len(holds))
	for i, h := range holds {
		node, err := client.MasterForKey(t.Context(), s.key(h.Name))
		if err != nil {
			t.Fatal(err)
		}
		frozen[i] = node.Options().Addr == servers[0].Addr
	}
	if !slices.Contains(frozen, true) {
		t.Error("no name was on the frozen server")
	}
	within := time.Second
	until(t, "the holds on the other servers are renewed", func() bool { // these servers may be slow
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		within *= 2
		renewed := true
		for i, r := range s.Renew(ctx, holds) {
			switch {
			case frozen[i] && !errors.Is(r.Err, store.ErrUnavailable), r.Err != nil && store.Definite(r.Err):
				t.Fatalf("renewal %d with its server frozen %v: %v", i, frozen[i], r.Err)
			case !frozen[i] && r.Err != nil:
				t.Logf("renewal %d, not within %v: %v", i, within/2, r.Err)
				renewed = false
			}
		}
		return renewed
	})
	servers[0].Thaw()
}
