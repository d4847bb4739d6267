package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
)

// wrongLastConstant is the code by which newer servers say that the sequence is another than
// expected. Some supported versions of the client have no name for it.
const wrongLastConstant jetstream.ErrorCode = 10164

// markers is how long NATS keeps the marker of an expired key.
const markers = time.Minute

// A bucket is the state of the bucket when it was last read.
type bucket struct {
	stream jetstream.Stream
	which  int64         // changes when it is recreated, and with the connected server
	links  uint64        // number of reconnects when it was read
	server int64         // the server's clock, in microseconds since 1970
	sent   store.Instant // when the clock was asked for
	heard  store.Instant // when the answer came
}

// now estimates the server's clock and is never ahead of it: otherwise a token could be larger than
// those that others draw in the next bucket.
func (k *bucket) now() int64 { return k.server + store.Now().Sub(k.heard).Microseconds() }

// latest is the most that the server's clock can show now.
func (k *bucket) latest() int64 { return k.server + store.Now().Sub(k.sent).Microseconds() }

func (b *backend) streamName() string        { return "KV_" + b.o.Bucket }
func (b *backend) subject(key string) string { return "$KV." + b.o.Bucket + "." + key }

// writeTo returns the subject to which the message for a key is sent.
func (b *backend) writeTo(key string) string {
	if b.o.Domain == "" { //mutant:nats-domain-written
		return b.subject(key)
	}
	return "$JS." + b.o.Domain + ".API." + b.subject(key)
}

// clockAge is how long the server's clock is assumed to run like the local one.
const clockAge = 5 * time.Minute

// prepare is prepared for a write: it creates a missing bucket.
func (b *backend) prepare(ctx context.Context) (*bucket, error) { return b.prepared(ctx, true) }

// present returns the bucket as read on this connection, or nil.
func (b *backend) present(links uint64) *bucket {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.bucket; k != nil && k.links == links && store.Now() < k.heard.Add(clockAge) {
		return k
	}
	return nil
}

// prepared returns the bucket, and reads it after each new connection. If there is no bucket, it
// creates one with makes, and otherwise returns nil.
func (b *backend) prepared(ctx context.Context, makes bool) (*bucket, error) {
	links := b.nc.Stats().Reconnects
	if k := b.present(links); k != nil {
		return k, nil
	}
	select {
	case b.preparing <- struct{}{}:
		defer func() { <-b.preparing }()
	case <-ctx.Done():
		return nil, b.unread(ctx.Err())
	}
	if k := b.present(links); k != nil {
		return k, nil
	}
	sent := store.Now()
	stream, err := b.readBucket(ctx, makes)
	heard := store.Now() //mutant:nats-clock-taken-stood-still
	switch {
	case !makes && isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, b.unread(err)
	}
	info := stream.CachedInfo()
	if err := b.suits(&info.Config); err != nil {
		return nil, err
	}
	which := info.Created.UnixNano() ^ b.connectedTo() //mutant:nats-version-of-another-server
	k := &bucket{stream, which, links, info.TimeStamp.UnixMicro(), sent, heard}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bucket = k
	clear(b.inboxes) // it may be another bucket
	return k, nil
}

func (b *backend) readBucket(ctx context.Context, makes bool) (jetstream.Stream, error) {
	stream, err := b.js.Stream(ctx, b.streamName())
	if !makes || !isNotFound(err) {
		return stream, err
	}
	// What nats.go calls a bucket, but without direct gets. Its sequence starts at the present time
	// in milliseconds, so that no revision of a deleted bucket is a revision of the next one.
	stream, err = b.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: b.streamName(), Description: "locks of holdfast", Subjects: []string{b.subject(">")},
		Storage: jetstream.FileStorage, Replicas: b.o.Replicas, FirstSeq: uint64(time.Now().UnixMilli()), Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute, //mutant:nats-bucket-made-again-counts
		MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
		AllowRollup: true, DenyDelete: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: markers,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // created a moment ago, with other replicas
		stream, err = b.js.Stream(ctx, b.streamName())
	}
	return stream, err
}

// suits returns what is wrong with a bucket.
func (b *backend) suits(c *jetstream.StreamConfig) error {
	why := ""
	switch {
	case !c.AllowMsgTTL: //mutant:nats-bucket-need-ttls
		why = "its messages can have no TTL: create it with NATS 2.11 or newer, and allow_msg_ttl"
	case c.AllowDirect: //mutant:nats-direct-gets-good-enough
		why = "it has direct gets, which can be stale: turn allow_direct off"
	case c.MaxMsgsPerSubject != 1 || c.MaxAge != 0 || c.MaxMsgs > 0 || c.MaxBytes > 0 || c.Discard != jetstream.DiscardNew: //mutant:nats-bucket-may-forget
		why = "it forgets what holdfast must keep, or keeps what it must forget: it needs max_msgs_per_subject 1, discard new, and no other limits"
	case c.Mirror != nil || len(c.Sources) > 0 || c.Sealed:
		why = "it is a copy of others, or sealed"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s cannot keep locks: %s; or use another (Options.Bucket)", store.ErrUnsupported, b.address, why)
}

// forget makes the next call read the bucket again.
func (b *backend) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bucket = nil
	clear(b.inboxes)
}

// A message is the newest message of a key. A zero seq: there is none. No data: the key was deleted
// or has expired.
type message struct {
	key    string
	seq    uint64
	data   []byte
	header nats.Header
	at     time.Time
}

// get reads a key from the server that leads the bucket.
func (b *backend) get(ctx context.Context, k *bucket, key string) (message, error) {
	m, err := k.stream.GetLastMsgForSubject(ctx, b.subject(key))
	return b.read(m, err)
}

// next reads the first message, from seq on, of the keys that match.
func (b *backend) next(ctx context.Context, k *bucket, seq uint64, keys string) (message, error) {
	m, err := k.stream.GetMsg(ctx, max(seq, 1), jetstream.WithGetMsgSubject(b.subject(keys)))
	return b.read(m, err)
}

func (b *backend) read(m *jetstream.RawStreamMsg, err error) (message, error) {
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return message{}, nil
	case err != nil:
		return message{}, b.unread(b.noStream(err))
	}
	out := message{key: strings.TrimPrefix(m.Subject, b.subject("")), seq: m.Sequence, at: m.Time}
	if m.Header.Get(jetstream.MarkerReasonHeader) == "" && m.Header.Get("KV-Operation") == "" {
		out.data, out.header = m.Data, m.Header
	}
	return out, nil
}

// linked reports whether the connection is still the one on which the bucket was read. After a
// reconnect, a server may have forgotten messages and reuse their numbers, so nothing that depends
// on such a number may be sent there. The connection may
// break during this call; the driver pauses before it connects again.
func (b *backend) linked(k *bucket) bool {
	is := b.nc.IsConnected() // first: the count shows that it was this connection
	return is && b.nc.Stats().Reconnects == k.links
}

var errNotLinked = errors.New("the connection to the server was lost")

// put writes a key if its newest message is still the expected one; ok reports whether it was. The
// message is sent once, to the server from which the bucket was read. A ttl of 0 means forever.
func (b *backend) put(ctx context.Context, k *bucket, m message, expected uint64, ttl time.Duration) (seq uint64, ok bool, err error) {
	if !b.linked(k) { //mutant:nats-write-on-another-connection
		return 0, false, errNotLinked
	}
	opts := append(make([]jetstream.PublishOpt, 0, 3), jetstream.WithExpectLastSequencePerSubject(expected), jetstream.WithRetryAttempts(0)) //mutant:nats-write-depend-read
	if ttl > 0 {
		opts = append(opts, jetstream.WithMsgTTL(ttl))
	}
	ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.writeTo(m.key), Data: m.data, Header: m.header}, opts...)
	var refused *jetstream.APIError
	switch {
	case err == nil:
		return ack.Sequence, true, nil
	case errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		refused.ErrorCode == wrongLastConstant):
		return 0, false, nil
	}
	if last := b.nc.LastError(); b.violated(last) { // it may be from another request
		err = fmt.Errorf("%w (%v)", err, last)
	}
	return 0, false, b.noStream(err)
}

// violated reports whether the error says that a request about the bucket is not allowed.
func (b *backend) violated(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && !ofSubscription(err) && (strings.Contains(err.Error(), b.streamName()) || strings.Contains(err.Error(), b.subject("")))
}

// mayNotRead is violated for a request that reads. NATS reports a denied write or deletion until
// the next connection, and that does not explain why a later read gets no answer.
func (b *backend) mayNotRead(err error) bool {
	return b.violated(err) && !strings.Contains(err.Error(), ".PURGE.") && !strings.Contains(err.Error(), b.subject("")) //mutant:nats-denied-by-an-older-write
}

// unread returns why something was not read. NATS reports a missing right on the connection, and
// does not answer the request.
func (b *backend) unread(err error) error {
	last := b.nc.LastError()
	if errors.Is(err, context.DeadlineExceeded) && b.mayNotRead(last) || !b.nc.IsConnected() && errors.Is(last, nats.ErrAuthorization) {
		return fmt.Errorf("%w: %w", store.ErrDenied, last)
	}
	return err
}

// noStream forgets a bucket that does not exist.
func (b *backend) noStream(err error) error {
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound) {
		b.forget()
	}
	return err
}
