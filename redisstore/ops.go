package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return store.Answer{}, err
	}
	cmd := s.asking(&s.scripts.ask, &c)
	s.start(ctx, cmd)
	answer, err := s.outcome(ctx, cmd, "ask for", c.Name)
	if err != nil {
		return store.Answer{}, err
	}
	if token, err := strconv.ParseInt(answer, 10, 64); err == nil {
		n := c.Tokens()
		return store.Answer{
			Granted: true, Token: token, N: n, TTL: c.TTL, Weight: c.Weight, Want: c.Weight, Last: token + int64(n) - 1,
		}, nil
	}
	return s.answered(answer, "ask for", &c)
}

// asking returns a run of the script sc, ask or poll, for the claim.
func (s *Store) asking(sc *script, c *store.Claim) *command {
	keep := s.retention + max(c.TTL+c.LockDelay, c.MinHold) + time.Millisecond //mutant:redis-name-remembered
	position := strconv.FormatInt(micros(c.PositionTTL), 10)
	if c.Try {
		position = "t" + position
	}
	return s.command(sc, s.key(c.Name), announced(c.Announce, claimed(c), strconv.FormatInt(micros(c.TTL), 10), strconv.FormatInt(keep.Milliseconds(), 10), position, c.GiveUp)...)
}

// answered reads the answer of the ask script, except a new grant.
func (s *Store) answered(answer, what string, c *store.Claim) (store.Answer, error) {
	rest := answer[1:]
	switch answer[0] {
	case 'G':
		a := store.Answer{Granted: true, TTL: c.TTL}
		if rest, ok := stands(&a, rest); ok && rest == "" {
			return a, nil
		}
	case 'R':
		if a, ok := refused(rest); ok {
			return a, nil
		}
	case 'M':
		if have, err := strconv.ParseInt(rest, 10, 64); err == nil {
			return store.Answer{}, &store.MismatchError{Have: have, Want: c.Limit}
		}
	}
	return store.Answer{}, s.strange(what, c.Name, answer)
}

// refused reads a refusal: some numbers, then the first blocking entries as stored.
func refused(s string) (a store.Answer, ok bool) {
	var head struct {
		Now, Last, Left float64
		Holding, Ahead  uint32
	}
	n, err := binary.Decode([]byte(s), le, &head)
	if err != nil {
		return a, false
	}
	entries, err := parseEntries(s[n:])
	if err != nil {
		return a, false
	}
	holders := queue.Queue{Entries: entries}
	return store.Answer{
		Last: int64(head.Last), Holding: int(head.Holding), Waiting: int(head.Ahead), Until: duration(int64(head.Left)),
		Holders: holders.State(queue.Time{Clock: int64(head.Now)}, "").Entries,
	}, true
}

// stands reads the state of a hold, and returns the rest.
func stands(a *store.Answer, s string) (rest string, ok bool) {
	var h struct {
		Last, Token, UpgradeToken float64
		Weight, Want              uint32
		N                         uint16
	}
	n, err := binary.Decode([]byte(s), le, &h)
	if err != nil {
		return "", false
	}
	a.Last, a.Token, a.UpgradeToken = int64(h.Last), int64(h.Token), int64(h.UpgradeToken)
	a.Weight, a.Want, a.N = int64(h.Weight), int64(h.Want), int(h.N)
	return s[n:], true
}

// Renew implements [store.Store]. It sends one pipeline, and a second one for the holds
// that no session could keep.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	valid := make([]int, 0, len(holds))
	for i := range holds {
		out[i].TTL = holds[i].TTL
		if out[i].Err = bounds.CheckRenewal(&holds[i]); out[i].Err == nil {
			valid = append(valid, i)
		}
	}
	runs, each := s.together(holds, valid)
	commands := make([]*command, 0, len(runs)+len(each))
	for _, r := range runs {
		commands = append(commands, r.command)
	}
	s.renewEach(ctx, holds, each, commands, out)
	var rest []int
	for _, r := range runs {
		rest = append(rest, s.renewedTogether(ctx, r, holds, out)...)
	}
	if len(rest) > 0 {
		s.renewEach(ctx, holds, rest, nil, out)
	}
	return out
}

// renewEach sends the commands and then a renew script for each of some holds, and reads the
// answers to the latter.
func (s *Store) renewEach(ctx context.Context, holds []store.Hold, some []int, commands []*command, out []store.Renewal) {
	ahead := len(commands)
	for _, i := range some {
		h := &holds[i]
		newID := ""
		if h.NewID != (store.ID{}) {
			newID = h.NewID.String()
		}
		commands = append(commands, s.command(&s.scripts.renew, s.key(h.Name), announced(h.Announce,
			h.ID.String(), strconv.FormatInt(h.Token, 10), strconv.FormatInt(micros(h.TTL), 10),
			strconv.FormatInt(h.Used, 10), newID, h.Owner)...))
	}
	s.start(ctx, commands...)
	for k, i := range some {
		out[i] = s.renewed(ctx, commands[ahead+k], &holds[i])
		s.sessions.renewed(holds[i].ID, out[i].Err)
	}
}

// renewed reads the answer of the renew script.
func (s *Store) renewed(ctx context.Context, cmd *command, h *store.Hold) store.Renewal {
	answer, err := s.outcome(ctx, cmd, "renew", h.Name)
	if err != nil {
		return store.Renewal{Err: err, TTL: h.TTL}
	}
	var a store.Answer
	if answer[0] == 'H' {
		if rest, ok := stands(&a, answer[1:]); ok {
			return store.Renewal{TTL: h.TTL, Weight: a.Weight, Want: a.Want, UpgradeToken: a.UpgradeToken, GiveUp: rest}
		}
	}
	return store.Renewal{Err: s.strange("renew", h.Name, answer), TTL: h.TTL}
}

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	const what = "change the weight of"
	if err := store.CheckChange(&h, turn, weight); err != nil {
		return store.Answer{}, err
	}
	cmd := s.command(&s.scripts.change, s.key(h.Name), h.ID.String(), strconv.FormatInt(h.Token, 10),
		strconv.FormatInt(int64(turn), 10), strconv.FormatInt(weight, 10), h.GiveUp)
	s.start(ctx, cmd)
	answer, err := s.outcome(ctx, cmd, what, h.Name)
	if err != nil {
		return store.Answer{}, err
	}
	var a store.Answer
	rest, ok := stands(&a, answer[1:])
	switch {
	case answer == "I":
		return store.Answer{}, store.NotUpgradeableError(h.Name)
	case answer[0] == 'G' && ok && rest == "":
		a.Granted = true
		return a, nil
	case answer[0] == 'R' && ok:
		if by, ok := refused(rest); ok {
			a.Holders, a.Holding, a.Until = by.Holders, by.Holding, by.Until
			return a, nil
		}
	}
	return store.Answer{}, s.strange(what, h.Name, answer)
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := store.CheckName(h.Name); err != nil {
		return err
	}
	cmd := s.releaseOf(&h)
	s.start(ctx, cmd)
	err := s.done(ctx, cmd, "release", h.Name)
	s.sessions.released(&h, err)
	return err
}

// ReleaseAll implements [store.Store]. It sends one pipeline per server.
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	commands := make([]*command, 0, len(holds))
	for i := range holds {
		if out[i] = store.CheckName(holds[i].Name); out[i] == nil {
			commands = append(commands, s.releaseOf(&holds[i]))
		}
	}
	s.start(ctx, commands...)
	for i := range holds {
		if out[i] == nil {
			out[i] = s.done(ctx, commands[0], "release", holds[i].Name)
			s.sessions.released(&holds[i], out[i])
			commands = commands[1:]
		}
	}
	return out
}

func (s *Store) releaseOf(h *store.Hold) *command {
	return s.command(&s.scripts.release, s.key(h.Name), announced(h.Announce, h.ID.String(), strconv.FormatInt(h.Token, 10), strconv.FormatInt(h.Used, 10))...)
}

// announced adds the argument that makes a script publish its change, if the claim or hold wants that.
func announced(is bool, args ...string) []string {
	if is { //mutant:redis-announces-each-lock
		args = append(args, "announce")
	}
	return args
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	now := ""
	if b.Now {
		now = "now"
	}
	cmd := s.command(&s.scripts.brk, s.key(b.Name), b.ID.String(), strconv.FormatInt(b.Token, 10), queue.StoredReason(&b), now)
	s.start(ctx, cmd)
	return s.done(ctx, cmd, "break", b.Name)
}

// Poll implements [store.Poller].
func (s *Store) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return store.Answer{}, err
	}
	const what = "look at"
	cmd := s.asking(&s.scripts.poll, &c)
	s.start(ctx, cmd)
	answer, err := s.outcome(ctx, cmd, what, c.Name)
	if err != nil {
		return store.Answer{}, err
	}
	if len(answer) < 10 || answer[0] != 'P' {
		return store.Answer{}, s.strange(what, c.Name, answer)
	}
	newest := float(answer[1:])
	if answer = answer[9:]; answer == "N" {
		return store.Answer{Granted: true, TTL: c.TTL, Weight: c.Weight, Want: c.Weight, Last: newest}, nil
	}
	if err := s.refusal(answer, cmd.key()); err != nil {
		return store.Answer{}, err
	}
	a, err := s.answered(answer, what, &c)
	if err != nil {
		return store.Answer{}, err
	}
	undrawn(&a, newest)
	return a, nil
}

// undrawn removes from the answer everything that only the following ask will draw.
func undrawn(a *store.Answer, newest int64) {
	a.Last = newest //mutant:redis-poll-newest
	if a.Token > newest {
		a.Token, a.N = 0, 0 //mutant:redis-poll-token
	}
	if a.UpgradeToken > newest {
		a.UpgradeToken = 0
	}
	for i := range a.Holders {
		h := &a.Holders[i]
		if h.Token > newest {
			h.Token, h.N, h.Used = 0, 0, 0
		}
		if h.UpgradeToken > newest {
			h.UpgradeToken = 0
		}
	}
}

// view reads the answer of the view script.
func (s *Store) view(ctx context.Context, cmd *command, what, name string) (now queue.Time, q queue.Queue, err error) {
	answer, err := cmd.wait(ctx)
	if err != nil {
		return now, q, s.failed(fmt.Sprintf("%s %q", what, name), err)
	}
	if len(answer) < 8 {
		return now, q, s.strange(what, name, answer)
	}
	us := float(answer)
	q, err = s.parse(cmd.key(), answer[8:])
	return queue.Time{Clock: us, Wall: us}, q, err
}

// outcome returns the script's answer, or the error that refusal finds in it.
func (s *Store) outcome(ctx context.Context, cmd *command, what, name string) (string, error) {
	answer, err := cmd.wait(ctx)
	if err != nil {
		return "", s.failed(fmt.Sprintf("%s %q", what, name), err)
	}
	return answer, s.refusal(answer, cmd.key())
}

// refusal returns the error in an answer that any script may give, or nil.
func (s *Store) refusal(answer, key string) error {
	switch answer[0] {
	case 'L':
		return queue.LostFor(answer[1:])
	case 'C':
		return s.corrupt(key)
	case 'V':
		if len(answer) == 2 {
			return s.otherForm(key, answer[1])
		}
	}
	return nil
}

// done returns the outcome of a script that has no result.
func (s *Store) done(ctx context.Context, cmd *command, what, name string) error {
	answer, err := s.outcome(ctx, cmd, what, name)
	if err == nil && answer != "1" {
		err = s.strange(what, name, answer)
	}
	return err
}

// strange returns the error for an answer that no script gives.
func (s *Store) strange(what, name, answer string) error {
	return fmt.Errorf("%w: %s %q on %s: answered with %.40q, which is no answer of this program", store.ErrUnavailable, what, name, s.address, answer)
}
