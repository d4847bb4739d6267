package holdfastotel

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// openHolds has the spans of holds that have not ended. Leases to which a name was handed on one
// after another have the same id, and tokens of their own. The events of an upgraded hold have the
// token of its grant.
//
// Events of one hold come from several goroutines. A hand-over can be reported before the release
// that caused it, and after the loss of the hold that it begins.
type openHolds struct {
	open map[store.ID][]openHold
	// The past of the newest ids, in two generations, so that their number is bounded.
	young, old map[store.ID]past
}

type openHold struct {
	token int64
	span  trace.Span
	grant trace.SpanContext // of the hold that the store granted
}

type past struct {
	grant trace.SpanContext
	early *holdfast.Event // an end whose beginning has not been reported
}

// generation is how many ids one generation of the past has.
const generation = 512

func newOpenHolds() openHolds {
	return openHolds{open: map[store.ID][]openHold{}, young: map[store.ID]past{}}
}

// before returns the span of the grant that the hold came from, and the end of the hold if that was
// reported already.
func (o *openHolds) before(e holdfast.Event) (grant trace.SpanContext, early *holdfast.Event) {
	was := o.past(e.ID)
	if open := o.open[e.ID]; len(open) > 0 {
		was.grant = open[len(open)-1].grant
	}
	return was.grant, o.ended(e)
}

// ended returns the end of the hold, if it was reported before its beginning, and forgets it.
func (o *openHolds) ended(e holdfast.Event) *holdfast.Event {
	was := o.past(e.ID)
	if was.early == nil || was.early.Token != e.Token {
		return nil
	}
	o.remember(e.ID, past{grant: was.grant})
	return was.early
}

// add notes a hold, unless its end was reported meanwhile: then it returns that.
func (o *openHolds) add(e holdfast.Event, h openHold) (early *holdfast.Event) {
	if early := o.ended(e); early != nil {
		return early
	}
	o.open[e.ID] = append(o.open[e.ID], h)
	return nil
}

func (o *openHolds) find(e holdfast.Event) (openHold, bool) {
	if i := o.index(e); i >= 0 {
		return o.open[e.ID][i], true
	}
	return openHold{}, false
}

// remove removes a hold that has ended.
func (o *openHolds) remove(e holdfast.Event) (openHold, bool) {
	i := o.index(e)
	if i < 0 {
		o.remember(e.ID, past{o.past(e.ID).grant, &e})
		return openHold{}, false
	}
	all := o.open[e.ID]
	h := all[i]
	if len(all) == 1 {
		delete(o.open, e.ID)
	} else {
		o.open[e.ID] = append(all[:i:i], all[i+1:]...)
	}
	o.remember(e.ID, past{grant: h.grant})
	return h, true
}

func (o *openHolds) index(e holdfast.Event) int {
	all := o.open[e.ID]
	for i := range all {
		if all[i].token == e.Token {
			return i
		}
	}
	return -1
}

func (o *openHolds) past(id store.ID) past {
	if p, ok := o.young[id]; ok {
		return p
	}
	return o.old[id]
}

func (o *openHolds) remember(id store.ID, p past) {
	if len(o.young) >= generation {
		o.young, o.old = map[store.ID]past{}, o.young
	}
	o.young[id] = p
}
