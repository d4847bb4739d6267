package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// While two exchanges with a server are under way, new commands wait until one of them
// ends and then go out together. A lone caller loses nothing, and many callers share a
// round trip.
const (
	maxExchanges = 2
	// exchangeTime bounds an exchange while the client's own timeouts do not apply: while it
	// dials or waits for a connection.
	exchangeTime = 10 * time.Second
)

// A command is one run of a script, by EVALSHA or, if the server does not know the
// script, by EVAL.
type command struct {
	*redis.StringCmd
	script *script
	args   []any // evalsha, the hash, the number of keys, the keys, and the script's arguments
	call   *call // once started
}

// key returns the first key.
func (c *command) key() string { return c.args[3].(string) }

// NoRetry keeps the client from sending the command again. A release that is done twice
// answers "lost", and in a pipeline one failure would repeat all commands.
func (*command) NoRetry() bool { return true }

func (s *Store) command(sc *script, key string, argv ...string) *command {
	return s.commandOn(sc, []string{key}, argv...)
}

// commandOn is command with several keys, which are on one server.
func (s *Store) commandOn(sc *script, keys []string, argv ...string) *command {
	args := make([]any, 3, 4+len(keys)+len(argv))
	args[0], args[1], args[2] = "evalsha", sc.sha, strconv.Itoa(len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	for _, a := range argv {
		args = append(args, a)
	}
	if s.clock != nil {
		args = append(args, strconv.FormatInt(s.clock(), 10))
	}
	return &command{StringCmd: redis.NewStringCmd(s.ctx, args...), script: sc, args: args}
}

// again prepares a command that the server did not run because it did not know the
// script. With text it sends the script's text.
func (c *command) again(ctx context.Context, text bool) {
	c.args[0], c.args[1] = "evalsha", c.script.sha
	if text {
		c.args[0], c.args[1] = "eval", c.script.text
	}
	c.StringCmd = redis.NewStringCmd(ctx, c.args...)
}

// noScript reports whether the server did not know the script.
func (c *command) noScript() bool {
	err := c.Err()
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}

// A call is a group of commands that one caller sends to one server together.
type call struct {
	ctx      context.Context // of the caller
	commands []*command
	done     chan struct{} // closed once the commands have their outcomes
	left     atomic.Bool   // the caller no longer waits
}

// done is the call of all commands that their caller sends itself.
var done = func() *call {
	c := &call{done: make(chan struct{})}
	close(c.done)
	return c
}()

// A lane queues commands for one server.
type lane struct {
	s       *Store
	mu      sync.Mutex
	waiting []*call
	flying  int
}

// start sends the commands, in one pipeline per server. wait returns the outcomes.
func (s *Store) start(ctx context.Context, commands ...*command) {
	if err := ctx.Err(); err != nil { // nothing is sent for a caller that has left
		for _, c := range commands {
			c.call = done
			c.SetErr(err)
		}
		return
	}
	if len(commands) == 1 {
		s.lane(ctx, commands[0].key()).add(ctx, commands)
		return
	}
	byLane := map[*lane][]*command{}
	for _, c := range commands {
		l := s.lane(ctx, c.key())
		byLane[l] = append(byLane[l], c)
	}
	for l, commands := range byLane {
		if len(byLane) == 1 {
			l.add(ctx, commands)
		} else {
			l.queue(ctx, commands) // all servers at the same time
		}
	}
}

// wait returns the server's answer or an error. If ctx ends first, the command may or
// may not have been sent.
func (c *command) wait(ctx context.Context) (string, error) {
	select {
	case <-c.call.done:
	default:
		select {
		case <-c.call.done:
		case <-ctx.Done():
			c.call.left.Store(true)
			return "", ctx.Err()
		}
	}
	v, err := c.Result()
	if err == nil && v == "" {
		err = errors.New("the server's answer is empty") // no script returns that
	}
	return v, err
}

// add sends the commands, or queues them if maxExchanges exchanges are under way. A lone
// caller sends its commands itself, with its own context: handing over to a goroutine and
// back would take as long as the server.
func (l *lane) add(ctx context.Context, commands []*command) {
	l.mu.Lock()
	if l.flying == maxExchanges {
		l.mu.Unlock()
		l.queue(ctx, commands)
		return
	}
	l.flying++
	l.mu.Unlock()
	for _, c := range commands {
		c.call = done
	}
	l.s.exchange(ctx, commands)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 {
		l.s.tasks.Go(l.fly)
	} else {
		l.flying--
	}
}

// queue queues the commands, to be sent with others when an exchange ends.
func (l *lane) queue(ctx context.Context, commands []*command) {
	c := &call{ctx: ctx, commands: commands, done: make(chan struct{})}
	for _, cmd := range commands {
		cmd.call = c
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, c)
	if l.flying < maxExchanges {
		l.flying++
		l.s.tasks.Go(l.fly)
	}
}

// fly sends the queued commands, without abandoned ones, until the queue is empty.
func (l *lane) fly() {
	for {
		l.mu.Lock()
		calls := l.waiting
		l.waiting = nil
		if len(calls) == 0 {
			l.flying--
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		var commands []*command
		var callers []context.Context
		for _, c := range calls {
			if !c.left.Load() {
				commands, callers = append(commands, c.commands...), append(callers, c.ctx)
			}
		}
		ctx, cancel := context.WithTimeout(l.s.ctx, exchangeTime)
		l.s.exchange(store.Join(ctx, callers...), commands) //mutant:redis-joined-in-no-trace
		cancel()
		for _, c := range calls {
			close(c.done)
		}
	}
}

// exchange runs the commands in one pipeline. If the server has forgotten a script, it ran
// none of the commands with it. Then the first of them is sent again with the script's
// text, and the others after it by the hash.
func (s *Store) exchange(ctx context.Context, commands []*command) {
	for range 3 {
		if len(commands) == 0 {
			return
		}
		s.send(ctx, commands)
		var missing []*command
		for _, c := range commands {
			if c.noScript() {
				brought := slices.ContainsFunc(missing, func(m *command) bool { return m.script == c.script })
				c.again(s.ctx, !brought)
				missing = append(missing, c)
			}
		}
		commands = missing
	}
}

// send sends the commands and sets their outcomes.
func (s *Store) send(ctx context.Context, commands []*command) {
	switch {
	case s.confirms():
		s.sendConfirmed(ctx, commands)
	case len(commands) == 1:
		if err := s.client.Process(ctx, commands[0]); err != nil {
			commands[0].SetErr(err)
		}
	default:
		pipe := s.client.Pipeline()
		for _, c := range commands {
			pipe.Process(ctx, c)
		}
		pipe.Exec(ctx) // each command has its own error
	}
	if slices.ContainsFunc(commands, func(c *command) bool { return elsewhere(c.Err()) }) {
		s.reload() //mutant:redis-fail-over-looked-for
	}
}
