package storetest

import "github.com/holdfast-go/holdfast/store"

var checkPromises = []promise{
	{name: "a_check_reports_what_it_looked_at", check: true, run: func(t *trial) {
		all := t.check(t.client())
		for _, f := range all {
			if f.About == "" || f.Text() == "" {
				t.Errorf("finding %q: %q: want both what was checked and what was found", f.About, f.Text())
			}
		}
	}},
	{name: "a_check_finds_no_failure_where_locks_work", check: true, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name))
		for _, f := range t.check(a) {
			if f.Err != nil {
				t.Errorf("%s: %s, although locks work", f.About, f.Text())
			}
		}
		h.release()
		t.empty(name)
	}},
}

func (t *trial) check(c *client) []store.Finding {
	t.Helper()
	all := c.Store.(store.Checker).Check(t.ctx)
	if len(all) == 0 {
		t.Fatal("the check has no findings")
	}
	return all
}
