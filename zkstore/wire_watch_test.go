package zkstore

import (
	"testing"

	"github.com/go-zookeeper/zk"
)

// Each event wakes its listeners, once. A new connection wakes all, as the server has forgotten its watches.
func TestAnEventWakesItsListener(t *testing.T) {
	t.Parallel()
	data, children, other := watched{"/a", false}, watched{"/a", true}, watched{"/b", false}
	for _, c := range []struct {
		what  string
		event zk.Event
		woken []watched
	}{
		{"data changed", zk.Event{Type: zk.EventNodeDataChanged, Path: "/a"}, []watched{data}},
		{"children changed", zk.Event{Type: zk.EventNodeChildrenChanged, Path: "/a"}, []watched{children}},
		{"deleted", zk.Event{Type: zk.EventNodeDeleted, Path: "/a"}, []watched{data, children}},
		{"disconnected", zk.Event{Type: zk.EventSession, State: zk.StateDisconnected}, nil},
		{"a new connection", zk.Event{Type: zk.EventSession, State: zk.StateHasSession}, []watched{data, children, other}},
	} {
		w := newWire(nil, 0)
		got := map[watched]<-chan zk.Event{}
		for _, what := range []watched{data, children, other} {
			got[what] = w.expect(what)
		}
		left := w.expect(data)
		w.unexpect(data, left)
		w.heard(c.event)
		w.heard(c.event)
		for _, what := range c.woken {
			if len(got[what]) != 1 {
				t.Errorf("%s: %v got %d events, want one", c.what, what, len(got[what]))
			}
			delete(got, what)
		}
		for what, events := range got {
			if len(events) > 0 {
				t.Errorf("%s: %v got an event, want none", c.what, what)
			}
		}
		if len(left) > 0 {
			t.Errorf("%s: got an event after unexpect, want none", c.what)
		}
	}
}

// A listener on a connection that has ended, because all data was deleted, would wait forever: nothing happens on it
// any more.
func TestTheEndOfAConnectionWakesAllListeners(t *testing.T) {
	t.Parallel()
	w := newWire(nil, 0)
	before := w.expect(watched{"/a", true})
	w.end()
	w.end()
	for when, events := range map[string]<-chan zk.Event{"before": before, "since": w.expect(watched{"/b", false})} {
		select {
		case e := <-events:
			if e.Type != zk.EventNotWatching {
				t.Errorf("%s: %v, want EventNotWatching", when, e.Type)
			}
		default:
			t.Errorf("%s: got no event", when)
		}
	}
	if len(w.expected) > 0 {
		t.Errorf("got %d events still expected, want none", len(w.expected))
	}
}
