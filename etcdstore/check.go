package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// askMember bounds the wait for one member.
const askMember = 2 * time.Second

// Check implements [record.Backend]. It asks each member that the client knows.
func (b *backend) Check(ctx context.Context) (all []store.Finding) {
	endpoints := b.client.Endpoints()
	answered := 0
	for _, endpoint := range endpoints {
		member := endpoint[strings.Index(endpoint, "://")+1:]
		asked, cancel := context.WithTimeout(ctx, askMember)
		status, err := b.client.Status(asked, endpoint)
		cancel()
		f, answers := findingOf(status, err)
		if answers {
			answered++
		}
		f.About = "member " + strings.TrimLeft(member, ":/")
		all = append(all, f)
	}
	if answered == 0 {
		all = append(all, store.Finding{About: "cluster", Err: fmt.Errorf("%w: no member of %s answers with a leader", store.ErrUnavailable, b.address)})
	}
	// The right to write is the right to lock, and this key is needed anyway.
	if _, err := b.base(ctx); err != nil {
		all = append(all, store.Finding{About: "key " + b.baseKey(), Err: known(err)})
	}
	return all
}

// findingOf returns the finding of a member's answer, and whether locks work
// through it.
func findingOf(status *clientv3.StatusResponse, err error) (f store.Finding, answers bool) {
	switch {
	case errors.Is(failed(err), store.ErrDenied): //mutant:etcd-status-denied
		// As 3.5.30 does. Versions with the fault return their version to every user.
		return store.Finding{Found: "it answers, and tells its version to users with the role root only"}, true
	case err != nil:
		return store.Finding{Warning: true, Found: "no answer: " + err.Error()}, false
	case status.Leader == 0:
		return store.Finding{Warning: true, Found: "it knows no leader: it is cut off from the others, or they are electing one"}, false
	case len(status.Errors) > 0:
		return store.Finding{Warning: true, Run: "etcdctl alarm list",
			Found: fmt.Sprintf("etcd %s, with alarms: %s; without space no new lock is granted", status.Version, strings.Join(status.Errors, ", "))}, true
	}
	f.Found = "etcd " + status.Version
	if hasFault(status.Version) {
		f.Warning = true //mutant:etcd-fault-is-warned-of
		f.Found += ": a leader that hung can end leases after it was replaced, and locks with them; etcd 3.4.31 and 3.5.13 fix it"
	}
	return f, true
}

// hasFault returns false for a version that it cannot parse.
func hasFault(version string) bool {
	var major, minor, patch int
	_, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	return err == nil && major == 3 && (minor == 4 && patch < 31 || minor == 5 && patch < 13)
}
