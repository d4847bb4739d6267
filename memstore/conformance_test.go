package memstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestStore(t *testing.T) {
	s := New()
	storetest.Run(t, func(*testing.T) store.Store { return s })
}
