//go:build !holdfast_lean

package main

import (
	"strconv"
	"sync"
	"time"
)

// A uiPage is what the page shows and does.
type uiPage struct {
	store    topStore
	token    string
	mayBreak bool
	began    time.Time

	mu      sync.Mutex
	last    reading // the newest that was answered
	trouble error   // the error of the newest read
	again   time.Time
	lost    losses
}

// took stores a reading. It returns an error, which ends the program, if the store can never be
// read.
func (u *uiPage) took(r *reading, pause time.Duration) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.hopeless() && u.last.where == "" {
		return r.err
	}
	u.trouble, u.again = r.err, r.at.Add(pause)
	u.lost.see(r)
	if r.known() {
		u.last = *r
	}
	return nil
}

// What the page gets. All text is ready to be shown: text of others has no control characters,
// and none that change the direction of text. Times are milliseconds since or until now; the page
// counts on from there.
type (
	uiState struct {
		Store    string    `json:"store"` // "" until something was read
		Trouble  string    `json:"trouble,omitempty"`
		Again    int64     `json:"again_ms"`
		Watched  int64     `json:"watched_ms"`
		Age      int64     `json:"age_ms"` // of the last reading
		MayBreak bool      `json:"may_break"`
		Names    []uiName  `json:"names"`
		Lost     []uiEntry `json:"lost"` // the newest first
	}
	uiName struct {
		Name    string    `json:"name"`
		Holders []uiEntry `json:"holders"`
		Waiters []uiEntry `json:"waiters"` // in order
	}
	uiEntry struct {
		Name      string `json:"name,omitempty"` // in Lost only
		ID        string `json:"id"`
		Token     string `json:"token"` // too large for a number in JavaScript
		State     string `json:"state"`
		Kind      string `json:"kind"`
		Owner     string `json:"owner"`
		Note      string `json:"note,omitempty"`
		Why       string `json:"why,omitempty"` // why it was broken or lost
		Age       int64  `json:"age_ms"`        // since the grant, or since it was lost
		Left      int64  `json:"left_ms"`       // until it expires unless renewed
		Breakable bool   `json:"breakable,omitempty"`
	}
)

// state returns what the page shows now.
func (u *uiPage) state() uiState {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	s := uiState{
		Store: plainText(u.last.where), Again: max(u.again.Sub(now), 0).Milliseconds(), Watched: now.Sub(u.began).Milliseconds(),
		MayBreak: u.mayBreak, Names: []uiName{}, Lost: []uiEntry{},
	}
	if u.trouble != nil {
		s.Trouble = plainText(u.trouble.Error())
	}
	if u.last.where != "" {
		s.Age = now.Sub(u.last.at).Milliseconds()
	}
	for i := range u.last.states {
		name := uiName{Name: printable(u.last.states[i].Name), Holders: []uiEntry{}, Waiters: []uiEntry{}}
		for _, l := range linesOf(u.last.states[i:i+1], u.last.at) {
			e := uiEntryOf(&l)
			e.Left = max(l.Expires-s.Age, 0)
			e.Breakable = u.mayBreak && l.breakable()
			if l.State == "waiting" {
				name.Waiters = append(name.Waiters, e)
				continue
			}
			e.Age = max(now.Sub(l.since), 0).Milliseconds()
			name.Holders = append(name.Holders, e)
		}
		if len(name.Holders)+len(name.Waiters) > 0 {
			s.Names = append(s.Names, name)
		}
	}
	for _, l := range u.lost.list {
		e := uiEntryOf(&l.line)
		e.Name, e.State, e.Why, e.Age = printable(l.line.Name), l.how, plainText(l.why), now.Sub(l.at).Milliseconds()
		s.Lost = append(s.Lost, e)
	}
	return s
}

func uiEntryOf(l *line) uiEntry {
	e := uiEntry{ID: l.ID, Token: strconv.FormatInt(l.Token, 10), State: l.State, Kind: l.kind(), Owner: owned(l), Note: plainText(l.Owner.Note), Why: plainText(l.Broken)}
	if l.Upgrade {
		e.Kind += ", waits to become a write lock"
	}
	return e
}
