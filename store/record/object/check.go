package object

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// CheckClock compares the server's clock, by the Date of an answer, with this host's, which was between sent and heard
// when the server answered. The server must have shown its time.
func CheckClock(server, sent, heard time.Time) store.Finding {
	f := store.Finding{About: "clock", Found: "the same as this host's, as far as answers show it: to two seconds"}
	switch {
	case server.After(heard):
		f.Found = fmt.Sprintf("at least %v ahead of this host's", server.Sub(heard).Round(time.Second))
	case server.Add(Stale).Before(sent):
		f.Found = fmt.Sprintf("at least %v behind this host's", sent.Sub(server.Add(Stale)).Round(time.Second))
	}
	return f
}

// CheckDeletes tries a delete. Locks do without that right, so no caller learns that it is missing.
func (b *Backend) CheckDeletes(ctx context.Context) store.Finding {
	err := b.server.Delete(ctx, b.Prefix+"t/none", "")
	if errors.Is(err, store.ErrDenied) { //mutant:object-check-of-deletes
		return store.Finding{About: "deletes", Warning: true, Found: "what locks leave behind stays, and grows: " + err.Error()}
	}
	return store.Finding{About: "deletes", Found: "allowed", Err: err}
}
