package k8sstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/session"
)

// The annotations of a name's Lease. A note has two: its data, and which note came before it. A join
// lets the server copy that from textTail, so it needs no read and conflicts with no other write.
const (
	textForm = domain + "form" // version of the stored form
	textRev  = domain + "rev"  // random for each swap
	textData = domain + "data" // the record
	textTail = domain + "tail" // the key of the newest note, which may have been taken in
	textIdle = domain + "idle" // true: only the newest token is left
	textName = domain + "name" // the name, if it is not that of the Lease
	textUsed = domain + "used" // true: another program has used the Lease
	textNote = domain + "note-"
	textPrev = domain + "prev-"
)

// form is the version of the stored form.
const form = 1

const (
	// maxRecord leaves space for notes: the annotations of an object have at most 256 KiB.
	maxRecord = 96 << 10
	// maxTaken is how many notes one swap takes in.
	maxTaken = 200
)

// A backend connects package store/record to a namespace. Package object stores all but the records.
type backend struct {
	sessions
	objects *object.Backend
	server  *server
	close   func()
}

// sessions is the part of a backend that package object implements.
type sessions interface {
	session.Backend
	session.Doubter
	record.Preparer
}

// shown are the names that their Leases have, too.
var shown = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// leaseOf returns the name of the Lease of a name. A name that Kubernetes does not allow, or that
// looks like one of holdfast's own, is hashed.
func leaseOf(name string) string {
	if len(name) <= 253 && shown.MatchString(name) && !strings.HasPrefix(name, "holdfast-") && !badDots.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "holdfast-n-" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

// badDots finds what a DNS name does not allow around a dot.
var badDots = regexp.MustCompile(`\.[.-]|-\.`)

// A spec is that of a Lease, as far as holdfast writes it.
type spec struct {
	HolderIdentity       string `json:"holderIdentity"`
	LeaseDurationSeconds int64  `json:"leaseDurationSeconds"`
	AcquireTime          string `json:"acquireTime,omitempty"` // a MicroTime, which has exactly six digits after the second
	RenewTime            string `json:"renewTime,omitempty"`
	LeaseTransitions     int64  `json:"leaseTransitions"`
}

// endless is the duration in a Lease that holdfast holds: client-go waits until the holder is gone,
// and does not judge it by renewals that do not come. It also tells such a Lease from others.
const endless = math.MaxInt32

// specFor returns the spec that shows the holder of a swap, or none.
func specFor(old json.RawMessage, owner string) spec {
	holder := ""
	if owner != "" {
		holder = store.ParseOwner(owner).String()
	}
	var was spec
	_ = json.Unmarshal(old, &was)
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	s := spec{HolderIdentity: holder, LeaseDurationSeconds: endless, RenewTime: now, AcquireTime: was.AcquireTime, LeaseTransitions: was.LeaseTransitions}
	if holder == "" {
		s.LeaseDurationSeconds = 1 // as client-go does
	}
	if holder != was.HolderIdentity {
		s.AcquireTime = now
		s.LeaseTransitions = min(max(s.LeaseTransitions, 0)+1, math.MaxInt32)
	}
	return s
}

// foreign returns the holder of a Lease if that is not of holdfast. It counts from the newest write
// of any other program, by the server's clock. Without that time, or without a duration, the holder
// is believed for as long as it says, from now on.
func foreign(l *lease, now time.Time) *record.Foreign {
	var s spec
	if json.Unmarshal(l.Spec, &s) != nil || s.HolderIdentity == "" || s.LeaseDurationSeconds == endless {
		return nil
	}
	f := &record.Foreign{Owner: s.HolderIdentity, Left: time.Duration(s.LeaseDurationSeconds) * time.Second}
	if s.LeaseDurationSeconds == 0 {
		f.Left = object.MaxTTL
	}
	if at := l.written(func(by string) bool { return !own(by) }); !at.IsZero() && !now.IsZero() {
		f.Left -= now.Sub(at) - object.Age //mutant:k8s-foreign-holder-ends
	}
	if since, err := time.Parse(time.RFC3339Nano, s.AcquireTime); err == nil && !now.IsZero() {
		f.Age = now.Sub(since)
	}
	if f.Left <= 0 {
		return nil
	}
	return f
}

// held reports whether a Lease shows that holdfast holds it.
func (l *lease) held() bool {
	var s spec
	_ = json.Unmarshal(l.Spec, &s)
	return s.HolderIdentity != "" && s.LeaseDurationSeconds == endless
}

// Traits implements [record.Backend].
func (b *backend) Traits() record.Traits {
	return record.Traits{Void: record.VoidByMark, Clock: true, Age: object.Age, MaxRecord: maxRecord, Retention: b.objects.Retention}
}

// Listen implements [record.Backend]. There are no notifications.
func (b *backend) Listen(context.Context, store.Process, func(record.Notification)) error {
	return store.ErrUnsupported
}

// Load implements [record.Backend].
func (b *backend) Load(ctx context.Context, name string) (record.Record, error) {
	l, now, err := b.server.get(ctx, leaseOf(name))
	if err != nil {
		return record.Record{}, err
	}
	return b.recordOf(l, now)
}

// A version is that of a record: its rev, and the spec that a swap must find as it is.
func version(l *lease) string {
	rev := l.Metadata.Annotations[textRev]
	if rev == "" { // a Lease of another program
		return "=" + l.Metadata.ResourceVersion
	}
	return rev + string(l.Spec)
}

// revs is the length of a rev.
var revs = len(rand.Text())

// recordOf returns the record of a Lease, which may be nil.
func (b *backend) recordOf(l *lease, now time.Time) (r record.Record, err error) {
	if !now.IsZero() {
		r.Now = now.UnixMicro()
	}
	if l == nil {
		return r, nil
	}
	a := l.Metadata.Annotations
	r.Version, r.Foreign = version(l), foreign(l, now)             //mutant:k8s-foreign-holder
	r.Shared = a[textRev] == "" || a[textUsed] != "" || l.others() //mutant:k8s-shared
	r.Free = r.Foreign == nil && !l.held()                         //mutant:k8s-free
	if a[textRev] == "" {
		return r, nil
	}
	where := "its Lease " + l.Metadata.Name + " in " + b.server.address
	if v, _ := strconv.Atoi(a[textForm]); v > form {
		return r, store.NewerFormError(where, v, form)
	}
	damaged := fmt.Errorf("%w: %s is damaged; it was not changed: delete it if nothing uses it", store.ErrCorrupt, where)
	if r.Data, err = base64.StdEncoding.DecodeString(a[textData]); err != nil || len(r.Data) == 0 || len(a[textRev]) != revs {
		return r, damaged
	}
	seen := map[string]bool{}
	for key := a[textTail]; key != ""; key = a[textPrev+key] {
		text, there := a[textNote+key]
		if !there || seen[key] { // it was taken in, and all before it; or its join was done again after that
			break
		}
		seen[key] = true
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return r, damaged
		}
		r.Inbox = append(r.Inbox, record.Note{Key: key, Data: data, Version: key})
	}
	if slices.Reverse(r.Inbox); len(r.Inbox) > maxTaken {
		r.Inbox, r.More = r.Inbox[:maxTaken], true
	}
	return r, nil
}

// Swap implements [record.Backend].
func (b *backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	if err := b.objects.Prepare(ctx); err != nil {
		return out, err
	}
	at := leaseOf(s.Name)
	texts := map[string]string{textRev: rand.Text(), textData: base64.StdEncoding.EncodeToString(s.Data), textIdle: strconv.FormatBool(s.Idle)}
	first := map[string]string{textForm: strconv.Itoa(form), textTail: ""}
	if at != s.Name {
		first[textName] = base64.StdEncoding.EncodeToString([]byte(s.Name))
	}
	if s.Old.Shared {
		texts[textUsed] = "true" // this write may remove the other program from managedFields //mutant:k8s-use-is-marked
	}
	var l *lease
	var what object.Fate
	var now time.Time
	switch old := s.Old.Version; {
	case old == "":
		for k, v := range first {
			texts[k] = v
		}
		shows, _ := json.Marshal(specFor(nil, s.Holder))
		l, what, now, err = b.server.create(ctx, &lease{Spec: shows, Metadata: meta{Name: at, Labels: map[string]string{labelKind: "n"}, Annotations: texts}})
	case old[0] == '=':
		l, what, now, err = b.adopt(ctx, at, old[1:], first, texts, s)
	default:
		l, what, now, err = b.server.patch(ctx, at, b.swaps(s, old, texts))
	}
	switch {
	case err != nil:
		return out, err
	case what != object.Done && s.Join != nil:
		return b.join(ctx, s.Name, s.Join.Notes)
	case what != object.Done && s.Old.Version != "":
		return b.refused(ctx, at, texts[textRev]), nil
	case what != object.Done:
		return out, nil
	}
	r, err := b.recordOf(l, now)
	r.Data = nil
	return record.Outcome{Done: true, Current: err == nil, Inbox: err == nil, Now: r}, nil
}

// refused returns the outcome of a refused swap with the record as it is. The swap was done if it is there: a proxy may
// have sent it twice, and a release would be reported as lost.
func (b *backend) refused(ctx context.Context, at, rev string) (out record.Outcome) {
	l, now, err := b.server.get(ctx, at)
	if err != nil {
		return out // the caller reads it again
	}
	out.Now, err = b.recordOf(l, now)
	out.Current, out.Inbox = err == nil, err == nil
	if l != nil && l.Metadata.Annotations[textRev] == rev { //mutant:k8s-swap-sent-twice
		out.Done, out.Now.Data = true, nil
	}
	return out
}

// swaps returns the steps of a swap on a record.
func (b *backend) swaps(s *record.Swap, old string, texts map[string]string) (steps []step) {
	rev, was := old[:revs], json.RawMessage(old[revs:])
	steps = append(steps,
		step{Op: "test", Path: annotation(textRev), Value: rev}, //mutant:k8s-swap-depends
		step{Op: "test", Path: "/spec", Value: was})             //mutant:k8s-swap-finds-the-holder
	for k, v := range texts {
		steps = append(steps, step{Op: "add", Path: annotation(k), Value: v})
	}
	for _, n := range s.Old.Inbox {
		steps = append(steps, step{Op: "remove", Path: annotation(textNote + n.Version)}, step{Op: "remove", Path: annotation(textPrev + n.Version)}) //mutant:k8s-note-goes
	}
	return append(steps, b.shows(s, was)...)
}

// shows returns the step that shows the holder, unless another program's is there.
func (b *backend) shows(s *record.Swap, was json.RawMessage) []step {
	if s.Old.Foreign != nil {
		return nil
	}
	return []step{{Op: "add", Path: "/spec", Value: specFor(was, s.Holder)}}
}

// adopt writes the first record into a Lease of another program.
func (b *backend) adopt(ctx context.Context, at, version string, first, texts map[string]string, s *record.Swap) (*lease, object.Fate, time.Time, error) {
	l, now, err := b.server.get(ctx, at)
	if err != nil {
		return nil, 0, now, err
	}
	if l == nil || l.Metadata.ResourceVersion != version {
		return nil, object.Refused, now, nil
	}
	steps := []step{{Op: "test", Path: "/metadata/resourceVersion", Value: version}} //mutant:k8s-adoption-depends
	if l.Metadata.Annotations == nil {
		steps = append(steps, step{Op: "add", Path: "/metadata/annotations", Value: map[string]string{}})
	}
	if l.Metadata.Labels == nil {
		steps = append(steps, step{Op: "add", Path: "/metadata/labels", Value: map[string]string{}})
	}
	steps = append(steps, step{Op: "add", Path: "/metadata/labels/" + strings.ReplaceAll(labelKind, "/", "~1"), Value: "n"})
	for _, some := range []map[string]string{first, texts} {
		for k, v := range some {
			steps = append(steps, step{Op: "add", Path: annotation(k), Value: v})
		}
	}
	return b.server.patch(ctx, at, append(steps, b.shows(s, l.Spec)...))
}

// join puts notes behind the newest one. It depends only on the existence of the record and on the
// absence of the notes, and does not change the record's version.
func (b *backend) join(ctx context.Context, name string, notes []record.Note) (out record.Outcome, err error) {
	steps := []step{{Op: "move", From: annotation(textTail), Path: annotation(textTail)}} // fails if there is no record
	for _, n := range notes {
		steps = append(steps,
			step{Op: "test", Path: annotation(textNote + n.Key)}, // a join may be done twice //mutant:k8s-join-again
			step{Op: "copy", From: annotation(textTail), Path: annotation(textPrev + n.Key)},
			step{Op: "add", Path: annotation(textTail), Value: n.Key},
			step{Op: "add", Path: annotation(textNote + n.Key), Value: base64.StdEncoding.EncodeToString(n.Data)})
	}
	l, what, now, err := b.server.patch(ctx, leaseOf(name), steps)
	if err == nil && what != object.Done {
		l, now, err = b.server.get(ctx, leaseOf(name)) // was it done before?
	}
	if err != nil || l == nil {
		return out, err
	}
	r, err := b.recordOf(l, now)
	joined := what == object.Done || slices.ContainsFunc(r.Inbox, func(n record.Note) bool { return n.Key == notes[0].Key })
	return record.Outcome{Joined: joined, Current: err == nil, Inbox: err == nil, Now: r}, nil
}

// List implements [record.Backend]. With unwritten it also deletes old unused Leases.
func (b *backend) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) { b.list(ctx, unwritten, "", func(string) {}, yield) }
}

// Sweep implements [record.Sweeper].
func (b *backend) Sweep(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return b.objects.SweepBy(ctx, func(after string, at func(string), yield func(record.Named, error) bool) {
		b.list(ctx, unwritten, after, at, yield)
	})
}

// list yields the names of the Leases that follow after. It calls at with the name of each Lease that
// it has finished.
func (b *backend) list(ctx context.Context, unwritten time.Duration, after string, at func(string), yield func(record.Named, error) bool) {
	selector := labelKind
	if unwritten == 0 {
		selector += "=n"
	}
	err := b.server.pages(ctx, selector, func(all []lease, now time.Time) bool {
		for i := range all {
			if l := &all[i]; l.Metadata.Name > after {
				if !b.one(ctx, unwritten, l, now, yield) {
					return false
				}
				if ctx.Err() == nil {
					at(l.Metadata.Name)
				}
			}
		}
		return true
	})
	if err != nil {
		yield(record.Named{}, err)
	}
}

// one handles one listed Lease, and reports whether to go on.
func (b *backend) one(ctx context.Context, unwritten time.Duration, l *lease, now time.Time, yield func(record.Named, error) bool) bool {
	o := objectOf(l, keyOf(l.Metadata.Name), now)
	if unwritten > 0 && (now.IsZero() || o.Written.IsZero() || now.Sub(o.Written) < unwritten) { //mutant:k8s-young-listed
		return true
	}
	if l.Metadata.Labels[labelKind] != "n" {
		b.objects.Discard(ctx, o)
		return true
	}
	name := l.Metadata.Name
	if text := l.Metadata.Annotations[textName]; text != "" {
		raw, _ := base64.StdEncoding.DecodeString(text)
		name = string(raw)
	}
	r, err := b.recordOf(l, now)
	if err == nil && l.Metadata.Annotations[textIdle] == "true" && len(r.Inbox) == 0 && r.Foreign == nil {
		if unwritten > 0 && b.objects.Old(o) && !r.Shared { //mutant:k8s-idle-is-kept
			_ = b.server.delete(ctx, l.Metadata.Name, l.Metadata.ResourceVersion) // the next sweep tries again
		}
		return true
	}
	return yield(record.Named{Name: name, Record: r}, err)
}

// Close implements [record.Backend].
func (b *backend) Close() error {
	err := b.objects.Close()
	b.close()
	return err
}
