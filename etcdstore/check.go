package etcdstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// askMember bounds how long one member is waited for.
const askMember = 2 * time.Second

// Check implements [record.Backend]: it asks each member that the client knows.
func (b *backend) Check(ctx context.Context) (all []store.Finding) {
	endpoints := b.client.Endpoints()
	answered := 0
	for _, endpoint := range endpoints {
		member := endpoint[strings.Index(endpoint, "://")+1:]
		f := store.Finding{About: "member " + strings.TrimLeft(member, ":/")}
		asked, cancel := context.WithTimeout(ctx, askMember)
		status, err := b.client.Status(asked, endpoint)
		cancel()
		switch {
		case err != nil:
			f.Warning, f.Found = true, "no answer: "+err.Error()
		case status.Leader == 0:
			f.Warning, f.Found = true, "it knows no leader: it is cut off from the others, or they are electing one"
		case len(status.Errors) > 0:
			answered++
			f.Warning = true
			f.Found = fmt.Sprintf("etcd %s, with alarms: %s; without space no new lock is given", status.Version, strings.Join(status.Errors, ", "))
			f.Run = "etcdctl alarm list"
		default:
			answered++
			f.Found = "etcd " + status.Version
			if hasFault(status.Version) {
				f.Warning = true //mutant:etcd-fault-is-warned-of
				f.Found += ": a leader that hung can end leases after it was replaced, and locks with them; etcd 3.4.31 and 3.5.13 fix it"
			}
		}
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

// hasFault is false of a version that it cannot read.
func hasFault(version string) bool {
	var major, minor, patch int
	_, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	return err == nil && major == 3 && (minor == 4 && patch < 31 || minor == 5 && patch < 13)
}
