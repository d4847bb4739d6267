// Package k8sstore stores locks in Lease objects of Kubernetes, through its API server: from a pod,
// with its service account and nothing else. It is a backend of package
// [github.com/holdfast-go/holdfast/store/record].
//
// # Stored form
//
// Leases (coordination.k8s.io/v1) of one namespace. All have the label holdfast-go.github.io/kind:
//
//	NAME                   a name
//	holdfast-n-HASH        a name that Kubernetes does not allow as that of an object, or that begins with holdfast-
//	holdfast-s-SESSION     a session of a process
//	holdfast-c-SESSION     how often another process called that session
//	holdfast-t-TEXT        a trial, for a moment
//	holdfast-w-sweep       how far the last sweep got
//
// The spec of a name's Lease shows its oldest holder, so that "kubectl get leases" lists it:
// holderIdentity, acquireTime, renewTime (the newest write of the name, not a renewal of the hold)
// and leaseTransitions. leaseDurationSeconds is 2147483647 while holdfast holds it, and 1 when it is
// free. What counts is in annotations, all with the prefix holdfast-go.github.io/:
//
//	form      version of this form
//	rev       random, new with each write of data or body
//	data      the record, as package store/record writes it, in base64
//	note-KEY  a claim that is not in the record yet, in base64
//	prev-KEY  the key of the note that came before that one; empty: none
//	tail      the key of the newest note, which may be in the record by now
//	idle      true: only the newest token is left
//	used      true: another program has used the Lease; without it, it is deleted when idle for a day
//	name      the name in base64, if it is not that of the Lease
//	body      the content of all other Leases
//
// # Guarantees
//
// Order, slots, upgrades, blocks of tokens, hand-over to another process, and match by token, as
// the contract in package [github.com/holdfast-go/holdfast/store] says. Waiters poll, with growing
// pauses.
//
// An answered write is in etcd. Each write is a JSON patch whose tests fail if rev or spec is not as
// it was read, or it appends a note. Each read is a consistent one.
//
// A process that finds an entry in a record reads the entry's session, and judges it by the API
// server's time: the Date of the answer, and the time in managedFields that the API server sets at
// each write. Both are whole seconds. TTLs are whole seconds, and the least is five. A holder counts
// three seconds less than its TTL: one because a session expires that long before its TTL, one for
// the truncated times, and one for the clocks of several API servers. These must not differ by more
// than a second. A process that finds a session expired closes it before anyone is granted what it
// kept, by a write that is refused if the session was renewed meanwhile.
//
// Minimum hold and lock delay use the server's time. Three seconds are added to each. Neither ends
// early, and both may end six seconds late.
//
// Tokens of a name increase while its Lease exists, and after that as long as the server's clock is
// not behind the newest one.
//
// # Holders that use client-go
//
// A program that holds the Lease of a name by package leaderelection of client-go, or by another
// that follows its rules, is a holder for holdfast, too: no claim is granted until the program has
// given the Lease back, or has not written it for leaseDurationSeconds and three seconds by the
// server's time. Claims wait for that in order. holdfast break refuses such a holder: delete or edit
// the Lease, as without holdfast. A claim that begins to wait writes to the Lease. If
// client-go gives the Lease back before its next renewal, that write makes its release fail, and the
// Lease expires instead.
//
// While holdfast holds a name, client-go waits, too, because the duration in the Lease is 68 years.
// It waits as well after a crash of the holder, and after a release with a minimum hold, until a
// process that uses holdfast asks for the name or a day has passed, as only holdfast finds that the
// session has ended.
//
// Do not set ReleaseOnCancel of client-go on a Lease that holdfast uses, too. A client-go process that
// was cut off for longer than its lease, and then gives up, clears the Lease even if another holds it by
// then. So the holder of a name reads its Lease with each renewal, if another program uses the Lease or
// has used it. If nobody has taken the cleared Lease, the renewal shows the holder again. If a third has
// taken it, the hold is lost. Until that renewal both go on: for a third of the holder's TTL and a
// request. If the third is gone again before the holder renews, and no process that uses holdfast has
// written the Lease meanwhile, the holder keeps it and does not learn of the third. A detached hold is not
// renewed: its loss shows when a process adopts it.
//
// client-go before v0.27 uses the duration in its own settings instead, and would take the name from
// holdfast. Do not mix those.
//
// # Requirements
//
// Kubernetes 1.22 or newer, which has managedFields for good; it was tested on 1.37 only. An API
// server or a proxy that leaves out Date or managedFields makes every try watch for up to the
// holder's TTL before it is refused.
//
// The objects of a namespace are a small part of the control plane's etcd, which answers some
// hundred writes a second for the whole cluster. A lock and its release are two writes, and a
// renewal of a process's session is one each third of the TTL. For locks that are taken often use
// another store.
//
// A process makes a trial before its first write, and so does holdfast doctor: of four simultaneous
// writers one must win, and each write whose condition is false must fail. That takes some 13 writes.
//
// Do not delete or edit a name's Lease while the name is in use: two could hold it. If it is lost,
// tokens begin at the server's time.
//
// # Rights
//
// This Role suffices:
//
//	apiVersion: rbac.authorization.k8s.io/v1
//	kind: Role
//	metadata: {name: holdfast}
//	rules:
//	- apiGroups: [coordination.k8s.io]
//	  resources: [leases]
//	  verbs: [get, list, create, patch, delete]
//
// list is for sweeps and for the list of names. Without delete, Leases stay: one for each name, and
// some for each process. So holdfast doctor tries a delete, and warns. A RoleBinding gives the Role
// to the service account of the pod.
package k8sstore

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// DefaultNamespace is the default of Options.Namespace.
const DefaultNamespace = "default"

// Options configure a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Namespace is where the Leases are, which must exist; DefaultNamespace if empty. Stores with
	// different namespaces are independent.
	Namespace string
}

// A Store stores locks in the Leases of a namespace. It is a [store.Store], and also a Poller, an
// Inspector and a Checker. Its methods are safe for concurrent use.
type Store struct {
	*record.Store
	b *backend
}

var _ interface {
	record.Backend
	record.Sweeper
} = (*backend)(nil)

// New returns a Store on the API server of a configuration, which is not changed: its address, its
// TLS settings and its credentials count, and of the rest Dial and Proxy. New does no I/O except to
// read the files that the configuration names. The connections are the Store's own: Close closes
// them. The error matches store.ErrInvalid.
func New(config *rest.Config, o *Options) (*Store, error) {
	b, err := newBackend(config, o)
	if err != nil {
		return nil, err
	}
	return &Store{record.New(b), b}, nil
}

func newBackend(config *rest.Config, o *Options) (*backend, error) {
	namespace := DefaultNamespace
	if o != nil && o.Namespace != "" {
		namespace = o.Namespace
	}
	switch {
	case config == nil:
		return nil, fmt.Errorf("%w: the configuration for Kubernetes is nil", store.ErrInvalid)
	case len(namespace) > 63 || !shown.MatchString(namespace) || strings.Contains(namespace, "."):
		return nil, fmt.Errorf("%w: %.80q is not the name of a namespace: want at most 63 of a-z, 0-9 and -", store.ErrInvalid, namespace)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("%w: the address of the Kubernetes API server: %w", store.ErrInvalid, err)
	}
	transport, err := transportFor(config)
	if err != nil {
		return nil, err
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, fmt.Errorf("%w: the credentials for Kubernetes: %w", store.ErrInvalid, err)
	}
	server := &server{
		client:    &http.Client{Transport: wrapped, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		leases:    base.JoinPath("apis", "coordination.k8s.io", "v1", "namespaces", url.PathEscape(namespace), "leases").String(),
		namespace: namespace, address: "Kubernetes at " + base.Host + ", namespace " + namespace,
	}
	objects := object.NewSessions(server, server.address, "")
	objects.Atomic = func(string) bool { return true }
	return &backend{sessions: objects, objects: objects, server: server, close: transport.CloseIdleConnections}, nil
}

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return store.Description{
		Store:  b.server.address,
		Tokens: "when the name's Lease is lost and the server's clock is behind the newest token",
		Loses: "nothing that was answered; an API server whose clock is set forward, or several whose clocks are more than a second apart, " +
			"can end a lease early for others",
		Forgets: []store.Accident{store.AccidentWipe, store.AccidentClockStep},
		Crash:   store.CrashTTL,
	}
}
