package main

import (
	"context"
	"fmt"
	"time"
)

// many has many clients in several processes ask for one name at once, on each store. Each
// holds the name once, for a moment. It reports how many did not get it within the limit, when
// the last one got it, and the cost to the server.
func many(ctx context.Context, s setup) error {
	once := s.atMost(1)
	return eachStore(s, func(on served) error {
		server, err := on.version(ctx)
		if err != nil {
			return err
		}
		once := once.at(server)
		for _, n := range s.comersOf(on) {
			limit := max(time.Minute, time.Duration(n)*180*time.Millisecond)
			var runners []runner
			for _, c := range patient(on.all) {
				runners = append(runners, runner{c.name, func(ctx context.Context) (m measure, err error) {
					// A new server for each: what one contender left behind must not affect the
					// next.
					err = on.during(ctx, func(at running) error {
						m, err = comeAtOnce(ctx, s.hot, on, at, c, n, limit)
						return err
					})
					return m, err
				}})
			}
			title := fmt.Sprintf("%s: %d come at once for one name, in %d processes; failed has who did not get it within %v", on.title, n, s.hot, limit)
			if err := rounds(ctx, once, title, "", manyColumns, runners); err != nil {
				return err
			}
		}
		return nil
	})
}

var manyColumns = []column{
	{name: "failed", better: less, print: count},
	{name: "until the last had it", unit: "ns", better: less, print: seconds},
	perLock,
}

// comeAtOnce has n clients ask at once, spread over several processes.
func comeAtOnce(ctx context.Context, processes int, on served, at running, c contender, n int, limit time.Duration) (measure, error) {
	if err := tryOut(ctx, at, c); err != nil {
		return nil, err
	}
	all, stop, err := startChildren(ctx, on.name, c, at.target, processes)
	if err != nil {
		return nil, err
	}
	defer stop()
	for i, p := range all {
		if err := p.tell("clients %d", n*(i+1)/processes-n*i/processes); err != nil {
			return nil, err
		}
	}
	for _, p := range all {
		if err := p.hear(); err != nil {
			return nil, err
		}
	}
	failed, end := 0, int64(0)
	var begin int64
	costs, err := at.count.during(ctx, c, func() error {
		begin = monotonic() + int64(100*time.Millisecond)
		for _, p := range all {
			if err := p.tell("come many-%d %d %d", begin, begin, limit.Milliseconds()); err != nil {
				return err
			}
		}
		for _, p := range all {
			var some int
			var last int64
			if err := p.hear(&some, &last); err != nil {
				return err
			}
			failed, end = failed+some, max(end, last)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m := measure{"failed": float64(failed)}
	if failed < n {
		m["until the last had it"] = float64(end - begin)
	}
	m.perLock(costs, n-failed)
	return m, nil
}
