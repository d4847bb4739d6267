package mongostore

import (
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/store"
)

// The rule (package store/queue), in the server's language. An operation is a
// pipeline of stages over the document of its name. While it runs, what it works
// with is in the field t:
//
//	p      the parameters of the call, and its number
//	now    $$NOW, as a date; us: the same, in microseconds
//	was    the document as it was
//	ours   it is of our form, or there was none
//	all    the entries as they were, in order
//	last   the newest token drawn;   limit   that of the entries
//	id     the id of the own entry;  mine    that entry, or none: a list
//	ok     the own entry is what the operation needs
//	wrote  the operation itself changes something
//	list   the entries once the operation has done its part
//	kept   those that are not over
//	r      what came of giving room: out, last, held, stop and woke
//	out    the entries as they will be;  end  the newest token then
//
// In an expression about an entry the entry is e. Every stage sees the document
// as the stage before left it.

const (
	form   = 1 // the version of what is stored
	retain = int64(store.TokenRetention / time.Millisecond)
)

// A call is one of an operation: the number by which it knows what it has
// written, and the time that it is judged by, which is $$NOW but for tests.
type call struct {
	number string
	now    any
}

func (s *Store) newCall() call { return call{store.NewProcess().String(), s.now()} }

// isOwn: it has the own id.
func isOwn() bson.D { return eq("$$e.id", "$t.id") }

// isLive: it has not expired.
func isLive() bson.D { return gt("$$e.expires", "$t.now") } //mutant:mongo-expires-this-instant-lives

// isWhole: no operator has broken it.
func isWhole() bson.D { return eq("$$e.broken", "") } //mutant:mongo-broken-hold-whole

// isHold: it is granted, with the token of the call.
func isHold() bson.D { return and("$$e.granted", eq("$$e.token", "$t.p.token")) } //mutant:mongo-hold-matched-id-alone

// isUpgrading: an upgrade of it is pending.
func isUpgrading() bson.D { return and("$$e.granted", gt("$$e.want", "$$e.weight"), isLive()) } //mutant:mongo-upgrade-outlives-hold

// ends is the instant at which it is out of the way, unless it is renewed.
func ends() bson.D {
	return cond("$$e.granted",
		most(add("$$e.expires", "$$e.delay"), cond("$$e.shown", add("$$e.since", "$$e.keep"), "$$e.expires")), //mutant:mongo-lock-delay
		"$$e.expires")
}

// ifOwn is the entries with the own one edited, if the operation may.
func ifOwn(list any, pairs ...any) bson.D {
	return each(list, cond(and(isOwn(), "$t.ok"), edited("$$e", pairs...), "$$e"))
}

// next is the first token that may be drawn after one.
func next(last any) bson.D { return most(add(last, long(1)), "$t.us") } //mutant:mongo-token-before

// opening is the first stage of every operation: all that differs between two
// calls of one is in it.
func (c call) opening(p bson.D) bson.D {
	ours := or(eq("$v", long(form)), eq("$$ROOT", object("_id", "$_id")))
	// By an operator the field is replaced, also that of a foreign document: as an
	// object it would be merged.
	return set("t", edited(object(
		"p", literal(append(p, bson.E{Key: "call", Value: c.number})), "now", c.now, "was", "$$ROOT", "ours", ours,
		"all", cond(and(ours, object("$isArray", bson.A{"$entries"})), "$entries", bson.A{}),
		"last", cond(ours, orElse("$fencingToken", long(0)), long(0)), //mutant:mongo-tokens-idle-name-forgotten
		"limit", cond(ours, orElse("$limit", long(0)), long(0)),
	)))
}

// finding finds the own entry. id is its id, and ok says what it has to be like.
func finding(id, ok any) bson.A {
	return bson.A{
		set("t.id", id, "t.us", op("$multiply", object("$toLong", "$t.now"), long(1000))),
		set("t.mine", those("$t.all", isOwn())),
		set("t.ok", some("$t.mine", ok)),
	}
}

// fixed is stages that are the same in every call, encoded at the first.
func fixed(stages func() bson.A) func() bson.A {
	return sync.OnceValue(func() bson.A {
		all := stages()
		for i, stage := range all {
			b, err := bson.Marshal(stage)
			if err != nil {
				panic(err) // they hold nothing but constants
			}
			all[i] = bson.Raw(b)
		}
		return all
	})
}

var (
	askStages     = fixed(asking)
	renewStages   = fixed(renewing)
	changeStages  = fixed(changing)
	releaseStages = fixed(releasing)
	breakStages   = fixed(breaking)
)

// settling drops from t.list what is over and gives room in order.
func settling() bson.A {
	woken := func(list any, id, token, n any) bson.D {
		return cond(eq(id, "$t.id"), list, text(list, id, " ", digits(token), " ", digits(n), "\n")) //mutant:mongo-own-grant-news
	}
	asTheyAre := object("out", "$t.kept", "last", "$t.last", "woke", "")
	stays := func(stop any) bson.D {
		return object("out", join("$$value.out", bson.A{"$$this"}), "last", "$$value.last", "held", "$$value.held", "stop", stop, "woke", "$$value.woke")
	}
	held := add("$$value.held", "$$this.weight")
	n := most("$$this.n", long(1))
	granted := object("$let", object("vars", object("first", next("$$value.last")), "in", object(
		"out", join("$$value.out", bson.A{edited("$$this", "granted", literal(true), "since", "$t.now", "token", "$$first", "n", n)}),
		"last", add("$$first", n, long(-1)), "held", held, "stop", literal(false), //mutant:mongo-block-token
		"woke", woken("$$value.woke", "$$this.id", "$$first", n),
	)))
	inOrder := object("$reduce", object(
		"input", "$t.kept",
		"initialValue", object("out", bson.A{}, "last", "$t.last", "held", "$t.held", "stop", literal(false), "woke", ""),
		"in", cond("$$this.granted", stays("$$value.stop"),
			cond(and(not("$$value.stop"), lte(held, "$t.limit")), granted, stays(literal(true)))), //mutant:mongo-small-pass-wide
	))
	// The own fence is news for the others' entries alone; there is one at most.
	upgraded := object(
		"out", each("$t.kept", cond(isUpgrading(), edited("$$e", "weight", "$$e.want", "fence", next("$t.last")), "$$e")),
		"last", next("$t.last"),
		"woke", woken("", mostOf(each(those("$t.kept", isUpgrading()), "$$e.id")), long(0), next("$t.last")),
	)
	return bson.A{
		set("t.kept", those("$t.list", gt(ends(), "$t.now"))),
		weights("$t.kept"),
		set("t.r", cond(gt("$t.up", long(0)), // before all that wait //mutant:mongo-upgrade-waits-behind-queue
			cond(lte(add("$t.held", "$t.up"), "$t.limit"), upgraded, asTheyAre), //mutant:mongo-upgrade-wait-readers
			cond("$t.waits", inOrder, asTheyAre))),
		set("t.wrote", or("$t.wrote", lt(sizeOf("$t.kept"), sizeOf("$t.all")), gt("$t.r.last", "$t.last"))), //mutant:mongo-over-written
	}
}

// weights finds what is in the way, by how much a pending upgrade is more, and
// whether somebody waits.
func weights(list any) bson.D {
	return set(
		"t.held", sumOf(each(those(list, "$$e.granted"), "$$e.weight")),
		"t.up", sumOf(each(those(list, isUpgrading()), subtract("$$e.want", "$$e.weight"))),
		"t.waits", some(list, not("$$e.granted")),
	)
}

// closing makes the document of what came out, or leaves it as it was. A
// document that is as it was is not written by the server. ok tells the call how it
// came out, and why tells the reason of an operator.
func closing(limit, ok any) bson.A {
	return bson.A{object("$replaceWith", cond(and("$t.ours", "$t.wrote"), object( //mutant:mongo-foreign-document-written
		"_id", "$_id", "v", long(form), "limit", limit, "fencingToken", "$t.end",
		"acquiredAt", cond(gt("$t.end", "$t.last"), "$t.now", "$acquiredAt"), //mutant:mongo-each-write-acquires
		"expiresAt", add(most("$t.now", mostOf(each("$t.out", ends()))), long(retain)), //mutant:mongo-document-goes-lease
		"at", "$t.now", "entries", "$t.out", "woke", "$t.r.woke",
		"op", object("call", "$t.p.call", "ok", ok, "why", orElse(mostOf("$t.mine.broken"), "")), //mutant:mongo-reason-forgotten
	), "$t.was"))}
}

// operation is the stages of all but an ask: what it does itself is in own, which
// sets t.list and t.wrote, and may change t.last.
func operation(id, ok any, own bson.A) bson.A {
	all := append(finding(id, ok), own...)
	all = append(all, settling()...)
	all = append(all, set("t.out", "$t.r.out", "t.end", "$t.r.last"))
	return append(all, closing("$t.limit", "$t.ok")...)
}

func askPipeline(claim *store.Claim, c call) bson.A {
	return append(bson.A{c.opening(object(
		"id", claim.ID.String(), "limit", claim.Limit, "weight", claim.Weight, "try", claim.Try, "n", int64(claim.Tokens()),
		"ttl", millis(claim.TTL), "place", millis(claim.Place), "keep", millis(claim.Keep), "delay", millis(claim.Delay), "owner", claim.Owner,
	))}, askStages()...)
}

func asking() bson.A {
	all := finding("$t.p.id", and(isLive(), isWhole()))
	all = append(all, set(
		"t.list", each("$t.all", cond(and(isOwn(), "$t.ok", not("$$e.granted")),
			edited("$$e", "expires", most("$$e.expires", add("$t.now", "$t.p.place"))), "$$e")), //mutant:mongo-place-kept
		"t.wrote", "$t.ok",
	))
	all = append(all, settling()...)
	entry := object(
		"id", "$t.p.id", "weight", "$t.p.weight", "want", "$t.p.weight", "turn", long(0), "n", "$t.p.n",
		"granted", "$t.room", "shown", literal(false), "broken", "", "token", cond("$t.room", "$t.first", long(0)), "fence", long(0),
		"since", cond("$t.room", "$t.now", literal(bson.DateTime(0))), "expires", add("$t.now", cond("$t.room", "$t.p.ttl", "$t.p.place")),
		"keep", "$t.p.keep", "delay", "$t.p.delay", "owner", "$t.p.owner",
	)
	all = append(all,
		weights("$t.r.out"),
		set(
			"t.first", next("$t.r.last"),
			"t.known", gt(sizeOf("$t.mine"), long(0)),
			"t.fits", or(eq(sizeOf("$t.r.out"), long(0)), eq("$t.limit", "$t.p.limit")), //mutant:mongo-limits-matter
			"t.room", and(not("$t.waits"), eq("$t.up", long(0)), lte(add("$t.held", "$t.p.weight"), "$t.p.limit")), //mutant:mongo-try-passes-those-wait
		),
		set("t.joins", and(not("$t.known"), "$t.fits", or("$t.room", not("$t.p.try")))), //mutant:mongo-second-entry-appended-lost
		set(
			"t.wrote", or("$t.wrote", "$t.joins"),
			"t.out", cond("$t.joins", join("$t.r.out", bson.A{entry}),
				each("$t.r.out", cond(and(isOwn(), "$t.ok", "$$e.granted"), edited("$$e", "expires", most("$$e.expires", add("$t.now", "$t.p.ttl"))), "$$e"))), //mutant:mongo-repeated-ask-push
			"t.end", cond(and("$t.joins", "$t.room"), add("$t.first", "$t.p.n", long(-1)), "$t.r.last"),
		),
	)
	return append(all, closing(cond("$t.joins", "$t.p.limit", "$t.limit"), or("$t.ok", not("$t.known")))...)
}

func renewPipeline(h *store.Hold, c call) bson.A {
	p := object("id", h.ID.String(), "new", "", "token", h.Token, "ttl", millis(h.TTL), "used", h.Used, "owner", h.Owner)
	if h.NewID != (store.ID{}) {
		p[1].Value = h.NewID.String()
	}
	return append(bson.A{c.opening(p)}, renewStages()...)
}

func renewing() bson.A {
	used := and(lt("$$e.token", "$t.p.used"), lt("$t.p.used", add("$$e.token", "$$e.n")))
	return operation(cond(in("$t.p.new", "$t.all.id"), "$t.p.new", "$t.p.id"), and(isHold(), isLive(), isWhole()), bson.A{ //mutant:mongo-renewal-repeated-under-new
		set("t.wrote", "$t.ok", "t.list", ifOwn("$t.all",
			"id", cond(eq("$t.p.new", ""), "$$e.id", "$t.p.new"),
			"turn", cond(used, most("$$e.turn", subtract("$t.p.used", "$$e.token")), "$$e.turn"), //mutant:mongo-newest-token-used-goes
			"shown", literal(true), //mutant:mongo-renewal-show-token
			"expires", most("$$e.expires", add("$t.now", "$t.p.ttl")), //mutant:mongo-renewal-moves-expiry-back
			"owner", cond(eq("$t.p.owner", ""), "$$e.owner", "$t.p.owner"), //mutant:mongo-renewal-forgets-owner
		)),
		set("t.id", cond(or(eq("$t.p.new", ""), not("$t.ok")), "$t.id", "$t.p.new")),
	})
}

func changePipeline(h *store.Hold, turn int32, weight int64, c call) bson.A {
	return append(bson.A{c.opening(object("id", h.ID.String(), "token", h.Token, "turn", int64(turn), "weight", weight))}, changeStages()...)
}

func changing() bson.A {
	fresh := and(isHold(), isLive(), isWhole(), gt("$t.p.turn", "$$e.turn"), //mutant:mongo-old-turn-undoes-new
		eq("$t.limit", long(store.Full)), or(eq("$$e.weight", long(store.Upgradeable)), ne("$$e.fence", long(0)))) //mutant:mongo-any-hold-can-upgraded
	return operation("$t.p.id", and(isHold(), isLive(), isWhole()), bson.A{
		set("t.wrote", some("$t.mine", fresh), "t.list", each("$t.all", cond(and(isOwn(), fresh),
			edited("$$e", "turn", "$t.p.turn", "want", "$t.p.weight", "weight", least("$$e.weight", "$t.p.weight")), "$$e"))), //mutant:mongo-way-back-waits
	})
}

func releasePipeline(h *store.Hold, c call) bson.A {
	return append(bson.A{c.opening(object("id", h.ID.String(), "token", h.Token, "used", h.Used))}, releaseStages()...)
}

func releasing() bson.A {
	whatever := eq("$t.p.token", long(0))
	end := add("$$e.token", "$$e.n", long(-1))
	back := and(isHold(), lte("$$e.token", "$t.p.used"), lt("$t.p.used", end), eq("$t.last", end))
	stays := and("$$e.granted", "$$e.shown", gt(add("$$e.since", "$$e.keep"), "$t.now")) //mutant:mongo-release-frees-minimum-hold
	return operation("$t.p.id", and(isLive(), or(whatever, isHold())), bson.A{
		set(
			"t.wrote", "$t.ok",
			"t.last", cond(and("$t.ok", not(whatever), some("$t.mine", back)), "$t.p.used", "$t.last"),
			"t.list", ifOwn("$t.all",
				"n", cond(and(not(whatever), back), add(subtract("$t.p.used", "$$e.token"), long(1)), "$$e.n"),
				"shown", not(whatever), // else nobody ran, and no minimum hold is kept
			),
		),
		set("t.list", those("$t.list", or(not(isOwn()), not("$t.ok"), stays))),
		set("t.list", ifOwn("$t.list", "expires", "$t.now", "delay", long(0))), //mutant:mongo-released-minimum-hold-delay
	})
}

func breakPipeline(b *store.Break, c call) bson.A {
	reason := b.Reason
	if reason == "" {
		reason = "no reason given"
	}
	return append(bson.A{c.opening(object("id", b.ID.String(), "token", b.Token, "reason", reason, "now", b.Now))}, breakStages()...)
}

func breaking() bson.A {
	has := and("$$e.granted", gt("$t.p.token", long(0)), or(eq("$t.p.token", "$$e.fence"), //mutant:mongo-break-needs-token
		and(lte("$$e.token", "$t.p.token"), lt("$t.p.token", add("$$e.token", "$$e.n")))))
	return operation("$t.p.id", and(has, gt(ends(), "$t.now")), bson.A{
		set("t.wrote", "$t.ok", "t.list", those("$t.all", not(and(isOwn(), "$t.ok", "$t.p.now")))),
		set("t.list", ifOwn("$t.list", "want", "$$e.weight", "broken", "$t.p.reason", "keep", long(0))), //mutant:mongo-break-keeps-minimum-hold
	})
}

// millis rounds up, so that no hold is shorter than was asked for.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
