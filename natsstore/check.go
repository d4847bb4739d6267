package natsstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
)

// checkPatience bounds Check: a server that hangs answers nothing.
const checkPatience = 4 * time.Second

// Check implements [record.Backend].
func (b *backend) Check(ctx context.Context) (all []store.Finding) {
	if !b.nc.IsConnected() {
		return []store.Finding{{About: "connection", Err: fmt.Errorf("%w: there is no connection to %s", store.ErrUnavailable, b.address)}}
	}
	all = append(all, store.Finding{About: "server", Found: "NATS " + b.nc.ConnectedServerVersion() + " at " + hosts([]string{b.nc.ConnectedUrlRedacted()})})
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	f := store.Finding{About: "bucket " + b.o.Bucket}
	stream, err := b.looked(ctx)
	switch {
	case isNotFound(err):
		f.Found = fmt.Sprintf("it does not exist yet: the first claim creates it, on %s", servers(b.o.Replicas))
	case err != nil:
		f.Err = b.failed(b.unread(err))
	default:
		info := stream.CachedInfo()
		if f.Err = b.suits(&info.Config); f.Err != nil {
			break
		}
		f.Found = "kept by " + servers(info.Config.Replicas)
		if info.Config.Replicas == 1 {
			f.Found += ": nobody gets a lock while that is down"
		}
		if info.Cluster != nil {
			for _, peer := range info.Cluster.Replicas {
				if peer.Offline || !peer.Current {
					f.Warning = true
					f.Found += fmt.Sprintf("; the replica %s is offline or behind", peer.Name)
				}
			}
		}
	}
	all = append(all, f)
	if f.Err == nil {
		all = append(all, b.rights(ctx, stream))
	}
	return all
}

// looked returns the bucket as it is, or as it was read a moment ago.
func (b *backend) looked(ctx context.Context) (jetstream.Stream, error) {
	if k := b.present(b.nc.Stats().Reconnects); k != nil && store.Now() < k.heard.Add(justNow) { //mutant:nats-check-of-a-bucket-of-before
		return k.stream, nil
	}
	return b.js.Stream(ctx, b.streamName())
}

// justNow is how long a check may use earlier reads: a check right after the first claim reads
// nothing again.
const justNow = time.Minute

// rights reports whether this user may write to the bucket: it has done so on this server, or a
// trial write shows it. The trial is always refused, because it expects a message that its key does
// not have.
func (b *backend) rights(ctx context.Context, stream jetstream.Stream) store.Finding {
	f := store.Finding{About: "rights", Found: "this user may write to the bucket"}
	if stream == nil {
		f.Warning, f.Found = true, "whether this user may create the bucket was not checked: the first claim will show"
		return f
	}
	if b.server.Load() == b.connectedTo() { //mutant:nats-rights-of-who-has-written
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience/2) // without the right there is no answer
	defer cancel()
	_, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.writeTo(keyOf("holdfast doctor " + store.NewProcess().String()))},
		jetstream.WithExpectLastSequencePerSubject(math.MaxInt64), jetstream.WithRetryAttempts(0))
	refused := (*jetstream.APIError)(nil)
	switch last := b.nc.LastError(); {
	case errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == wrongLastConstant):
	case b.violated(last): //mutant:nats-rights-are-checked
		f.Err = b.failed(last)
	default:
		f.Warning, f.Found = true, fmt.Sprintf("whether this user may write to the bucket was not checked: %v", err)
	}
	return f
}

func servers(n int) string {
	if n == 1 {
		return "one server"
	}
	return fmt.Sprintf("%d servers", n)
}
