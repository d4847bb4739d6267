// Package holdfastkube lets client-go's leader election, and so controller-runtime's manager, use a
// lock of holdfast:
//
//	lock, err := holdfastkube.New(locks, "my-operator", "")
//	manager, err := ctrl.NewManager(config, ctrl.Options{
//		LeaderElection:                      true,
//		LeaderElectionResourceLockInterface: lock,
//		LeaderElectionReleaseOnCancel:       true,
//	})
//
// [holdfast.Election.Lead] is better where you can use it: see docs/kubernetes-leader.md. This package
// is for programs whose election is client-go's.
//
// # What it is
//
// client-go renews the lease for LeaseDuration each RetryPeriod. The lease does not renew itself:
// an elector that has stopped, or hangs, loses it. client-go gives up at most RetryPeriod and
// RenewDeadline after the last renewal. LeaseDuration must be longer than both together, as its
// defaults are (15 s, 10 s and 2 s). The store must have leases with deadlines. LeaseDuration is
// the TTL, and must be within the bounds of the store.
//
// # What client-go does not learn
//
// client-go does not learn that the lease is lost. After a pause of the process, or a break by an
// operator, it continues to lead until it has failed to renew for RenewDeadline, and another may
// lead already. And with ReleaseOnCancel it releases the lease before it ends the context of
// OnStartedLeading. Two ways avoid both: end the work with the lease, by the Context of
// [Lock.Lease], or pass its token to the resource that you write to.
//
// # What it lacks
//
// It creates no object in the cluster, so there is no Lease to inspect: use "holdfast ls". Events
// are dropped, because there is no object that they belong to.
package holdfastkube

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-go/holdfast"
)

// A Lock is one candidate, for one elector. Its methods are safe for concurrent use.
type Lock struct {
	locks    *holdfast.Locker
	name     string
	identity string

	mu    sync.Mutex
	lease *holdfast.Lease // of the newest term, until client-go has stopped leading
}

var _ resourcelock.Interface = (*Lock)(nil)

// maxIdentity is the maximum length of a note.
const maxIdentity = 100

// New returns a candidate of the election of the name. Others know it by its identity, which has at
// most 100 bytes and must be unique among the candidates. Default: the host's name, and some random
// letters.
func New(locks *holdfast.Locker, name, identity string) (*Lock, error) {
	if identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("election %q: its identity: %w", name, err)
		}
		identity = host[:min(len(host), maxIdentity-27)] + "_" + rand.Text()
	}
	if len(identity) > maxIdentity {
		return nil, fmt.Errorf("election %q: %w: the identity has %d bytes, want at most %d", name, holdfast.ErrInvalid, len(identity), maxIdentity)
	}
	return &Lock{locks: locks, name: name, identity: identity}, nil
}

// Lease returns the lease of the present term, or nil if this candidate does not lead. Its
// Context ends with the term.
func (l *Lock) Lease() *holdfast.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease == nil || !l.lease.Valid() {
		return nil
	}
	return l.lease
}

// Get returns the leader. If there is none, IsNotFound is true for the error.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	leader, err := l.locks.Election(l.name).Leader(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case leader.Nobody():
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Group: "holdfast", Resource: "elections"}, l.name)
	}
	now := time.Now()
	r := &resourcelock.LeaderElectionRecord{
		HolderIdentity:       leader.Note,
		LeaseDurationSeconds: max(1, int(leader.Expires.Sub(now)/time.Second)),
		AcquireTime:          metav1.NewTime(leader.Since),
		RenewTime:            metav1.NewTime(now),
	}
	if r.HolderIdentity == "" { // a candidate outside this package
		r.HolderIdentity = leader.Owner.String()
	}
	// client-go compares this with the previous one. It must differ, because the current leader has
	// renewed.
	return r, fmt.Appendf(nil, "%s %d %d", leader.ID, leader.Token, now.UnixNano()), nil
}

// Create begins a term, if there is no leader.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

// Update renews the term of this candidate, or begins one if there is no leader. With a record
// without an identity it resigns.
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" {
		return l.resign()
	}
	ttl := time.Duration(r.LeaseDurationSeconds) * time.Second
	l.mu.Lock()
	lease := l.lease
	l.mu.Unlock()
	if lease != nil { // even if the term was lost: another may have led since, so client-go has to stop first //mutant:kube-lost
		return lease.Renew(ctx, ttl)
	}
	o := &holdfast.Options{TTL: ttl, NoRenew: holdfast.On, Note: l.identity, HandOver: &holdfast.HandOver{}} //mutant:kube-by-hand
	next, err := l.locks.With(o).Mutex(l.name).TryLock(ctx)                                                  //mutant:kube-one
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = next
	return nil
}

func (l *Lock) resign() error {
	l.mu.Lock()
	lease := l.lease
	l.lease = nil
	l.mu.Unlock()
	if lease == nil {
		return nil
	}
	if err := lease.Release(); !errors.Is(err, holdfast.ErrReleased) {
		return err
	}
	return nil
}

// stopped is the event by which client-go reports that its elector no longer leads.
const stopped = "stopped leading"

// RecordEvent lets the candidate lead again once the elector has stopped leading. It drops other
// events.
func (l *Lock) RecordEvent(event string) {
	if event == stopped {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lease = nil
	}
}

// Identity returns the identity by which others know this candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe returns the name of the election.
func (l *Lock) Describe() string { return "holdfast/" + l.name }
