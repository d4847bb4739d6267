package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// Callers leave while the server is frozen with their asks. When it continues it grants them, and no caller is left to hold them: the store
// releases each once it is answered. Nothing is left that only the TTL would end.
func TestAnAskCanceledOnAFrozenServerLeavesNoEntry(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr)
	const rounds, callers = 4, 50
	for range rounds {
		asked := storeOn(t, client, nil)
		locks, err := holdfast.New(asked, &holdfast.Options{TTL: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if lease, err := locks.Mutex("warm").Lock(t.Context()); err != nil || lease.Release() != nil {
			t.Fatal("the server did not answer before the freeze")
		}
		server.Freeze()
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				if _, err := locks.Mutex(fmt.Sprint("name ", i)).Lock(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("caller %d: %v, want the error of its context", i, err)
				}
			})
		}
		until(t, "all callers wait, and the first asks are sent", func() bool { return asked.queued() >= callers-maxExchanges })
		leave()
		wg.Wait() // though the server is frozen
		server.Thaw()
		if err := locks.Close(); err != nil { // it waits for the requests under way
			t.Errorf("Close: %v", err)
		}
		s := storeOn(t, client, nil)
		for st, err := range s.List(t.Context(), "") {
			t.Errorf("got %q with %d entries left, error %v", st.Name, len(st.Entries), err)
		}
		s.Close()
	}
}
