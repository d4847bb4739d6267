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
	"github.com/holdfast-go/holdfast/store/queue"
)

// markers is how long NATS keeps the marker of a key whose TTL is over.
const markers = time.Minute

// A bucket is what was found when it was last looked at.
type bucket struct {
	stream jetstream.Stream
	server int64         // the server's clock, in microseconds since 1970
	at     store.Instant // when we heard that
}

// now is the present on the server's clock, as far as we know, and never ahead of it:
// else a token could be larger than those that others draw in the next bucket.
func (b *bucket) now() queue.Time {
	us := b.server + store.Now().Sub(b.at).Microseconds()
	return queue.Time{Clock: us, Wall: us}
}

func (s *Store) streamName() string        { return "KV_" + s.o.Bucket }
func (s *Store) subject(key string) string { return "$KV." + s.o.Bucket + "." + key }

// writeTo is where the message for a key is sent.
func (s *Store) writeTo(key string) string {
	if s.o.Domain == "" { //mutant:nats-domain-written
		return s.subject(key)
	}
	return "$JS." + s.o.Domain + ".API." + s.subject(key)
}

// prepare is prepared for who writes: it makes a bucket that is not there.
func (s *Store) prepare(ctx context.Context) (*bucket, error) { return s.prepared(ctx, true) }

// prepared looks at the bucket after each new connection. Without makes it is nil if
// there is none. What is remembered of one that was deleted would mean something else in
// the next: it may count to the same numbers.
func (s *Store) prepared(ctx context.Context, makes bool) (*bucket, error) {
	links := s.nc.Stats().Reconnects
	s.mu.Lock()
	b := s.bucket
	if s.links != links {
		b = nil
	}
	s.mu.Unlock()
	if b != nil {
		return b, nil
	}
	select {
	case s.preparing <- struct{}{}:
		defer func() { <-s.preparing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	b = s.bucket
	if s.links != links {
		b = nil
	}
	s.mu.Unlock()
	if b != nil {
		return b, nil
	}
	stream, err := s.lookAtBucket(ctx, makes)
	heard := store.Now() //mutant:nats-clock-taken-stood-still
	switch {
	case !makes && isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, s.unread(err)
	}
	info := stream.CachedInfo()
	if err := s.suits(&info.Config); err != nil {
		return nil, err
	}
	b = &bucket{stream, info.TimeStamp.UnixMicro(), heard}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bucket, s.links = b, links
	clear(s.known) //mutant:nats-remembered-outlives-connection
	if !s.made.Equal(info.Created) {
		s.made = info.Created
		clear(s.alive)
	}
	return b, nil
}

func (s *Store) lookAtBucket(ctx context.Context, makes bool) (jetstream.Stream, error) {
	stream, err := s.js.Stream(ctx, s.streamName())
	if !makes || !isNotFound(err) {
		return stream, err
	}
	// What nats.go calls a bucket, but for direct gets. It counts from the time on, in
	// milliseconds, so that what is known of one that was deleted is no revision of
	// the next.
	stream, err = s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: s.streamName(), Description: "locks of holdfast", Subjects: []string{s.subject(">")},
		Storage: jetstream.FileStorage, Replicas: s.o.Replicas, FirstSeq: uint64(time.Now().UnixMilli()), Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute, //mutant:nats-bucket-made-again-counts
		MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
		AllowRollup: true, DenyDelete: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: markers,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made a moment ago, with other replicas
		stream, err = s.js.Stream(ctx, s.streamName())
	}
	return stream, err
}

// suits says what is wrong with a bucket.
func (s *Store) suits(c *jetstream.StreamConfig) error {
	why := ""
	switch {
	case !c.AllowMsgTTL: //mutant:nats-bucket-need-ttls
		why = "its messages can have no TTL: make it with NATS 2.11 or newer, and allow_msg_ttl"
	case c.AllowDirect: //mutant:nats-direct-gets-good-enough
		why = "it has direct gets, which can be stale: turn allow_direct off"
	case c.MaxMsgsPerSubject != 1 || c.MaxAge != 0 || c.MaxMsgs > 0 || c.MaxBytes > 0 || c.Discard != jetstream.DiscardNew: //mutant:nats-bucket-may-forget
		why = "it forgets what holdfast must keep, or keeps what it must forget: it needs max_msgs_per_subject 1, discard new, and no other limits"
	case c.Mirror != nil || len(c.Sources) > 0 || c.Sealed:
		why = "it is a copy of others, or sealed"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s cannot keep locks: %s; or use another (Options.Bucket)", store.ErrUnsupported, s.address, why)
}

// forget has the bucket looked at anew.
func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bucket = nil
	clear(s.known)
}

// A message is the newest of a key. A zero seq: there is none; no data: it was
// deleted, or its TTL is over.
type message struct {
	seq  uint64
	data []byte
	at   time.Time
}

// get reads a key from the server that leads the bucket.
func (s *Store) get(ctx context.Context, key string) (message, error) {
	b, err := s.prepare(ctx)
	if err != nil {
		return message{}, err
	}
	m, err := b.stream.GetLastMsgForSubject(ctx, s.subject(key))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return message{}, nil
	case err != nil:
		return message{}, s.unread(s.noStream(err))
	case m.Header.Get(jetstream.MarkerReasonHeader) != "" || m.Header.Get("KV-Operation") != "":
		return message{seq: m.Sequence, at: m.Time}, nil
	}
	return message{m.Sequence, m.Data, m.Time}, nil
}

// put writes a key if its newest message is still the expected one; ok says
// whether it was. It is sent once. A ttl of 0 means for ever.
func (s *Store) put(ctx context.Context, key string, data []byte, expected uint64, ttl time.Duration) (seq uint64, ok bool, err error) {
	if _, err := s.prepare(ctx); err != nil {
		return 0, false, err
	}
	opts := append(make([]jetstream.PublishOpt, 0, 3), jetstream.WithExpectLastSequencePerSubject(expected), jetstream.WithRetryAttempts(0)) //mutant:nats-write-depend-read
	if ttl > 0 {
		opts = append(opts, jetstream.WithMsgTTL(ttl))
	}
	ack, err := s.js.Publish(ctx, s.writeTo(key), data, opts...)
	var refused *jetstream.APIError
	switch {
	case err == nil:
		return ack.Sequence, true, nil
	case errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return 0, false, nil
	}
	if last := s.nc.LastError(); s.violated(last) { // it may be of another request
		err = fmt.Errorf("%w (%v)", err, last)
	}
	return 0, false, s.noStream(err)
}

// violated reports whether the error is that a request about the bucket is not allowed.
func (s *Store) violated(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && (strings.Contains(err.Error(), s.streamName()) || strings.Contains(err.Error(), s.subject("")))
}

// unread is why something was not read. NATS tells who may not on the connection, and
// leaves the request without an answer.
func (s *Store) unread(err error) error {
	last := s.nc.LastError()
	if errors.Is(err, context.DeadlineExceeded) && s.violated(last) || !s.nc.IsConnected() && errors.Is(last, nats.ErrAuthorization) {
		return fmt.Errorf("%w: %w", store.ErrDenied, last)
	}
	return err
}

// noStream forgets a bucket that is not there.
func (s *Store) noStream(err error) error {
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound) {
		s.forget()
	}
	return err
}
