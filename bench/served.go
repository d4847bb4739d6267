package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A served store is one that can be measured here.
type served struct {
	name  string // for children, and for -on
	title string
	all   []contender // holdfast is the first
	// peer is the contender that the ratios refer to; empty: no other one can wait.
	peer string
	// start starts servers whose limits allow a thousand clients. It fails with errNoServer if
	// there is no server.
	start func(ctx context.Context) (running, error)
	// comers is how many clients come at once unless -comers is given; none: as many as on most
	// stores.
	comers []int
}

// manyComers is how many clients come at once on most stores.
var manyComers = []int{300, 1000}

// comersOf returns how many clients come at once on a store, one table after another.
func (s setup) comersOf(on served) []int {
	switch {
	case len(s.comers) > 0:
		return s.comers
	case len(on.comers) > 0:
		return on.comers
	}
	return manyComers
}

// A running store has been started.
type running struct {
	target string
	server string // its version and settings
	count  counter
	stop   func()
}

// errNoServer says that the rows of a store cannot be measured here.
var errNoServer = errors.New("not measured")

// forMany lets a Redis server accept several connections from each of a thousand clients.
var forMany = []string{"--maxclients", "15000", "--tcp-backlog", "4096"}

// wants reports whether to measure the store.
func (s setup) wants(name string) bool { return len(s.on) == 0 || slices.Contains(s.on, name) }

// eachStore measures on one store after the other.
func eachStore(s setup, measure func(served) error) error {
	for _, on := range stores {
		if !s.wants(on.name) {
			continue
		}
		switch err := measure(on); {
		case errors.Is(err, errNoServer):
			if err := s.absent(on.title, err.Error()); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("%s: %w", on.title, err)
		}
	}
	return nil
}

// during runs f with the store's servers.
func (on served) during(ctx context.Context, f func(running) error) error {
	at, err := on.start(ctx)
	if err != nil {
		return err
	}
	defer at.stop()
	return f(at)
}

// version starts the store's servers to learn their version and settings.
func (on served) version(ctx context.Context) (server string, err error) {
	err = on.during(ctx, func(at running) error {
		server = at.server
		return nil
	})
	return server, err
}

// tryOut locks and unlocks once with each contender, so that tables and scripts exist before
// other clients come.
func tryOut(ctx context.Context, at running, cs ...contender) error {
	for _, c := range cs {
		l, err := c.open(at.target)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		unlock, err := l.lock(ctx, "first")
		if err == nil {
			err = unlock()
		}
		l.close()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}
