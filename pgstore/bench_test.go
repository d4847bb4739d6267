package pgstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// This measures a claim and its release on a name that nobody else uses.
func BenchmarkTablePair(b *testing.B) {
	s := newShared(b)
	c := mutex("pair")
	for b.Loop() {
		c.ID = me.NewID()
		h := mustHold(b, s, c)
		if err := s.Release(b.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: h.Token}); err != nil {
			b.Fatal(err)
		}
	}
}
