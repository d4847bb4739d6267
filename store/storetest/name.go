package storetest

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// oddNames returns names that are all different, and that a store must not mix up.
func oddNames() []string {
	r := "r" + random() // random can return only digits, which have no upper case
	long := strings.Repeat("x", store.MaxName-len(r)-1)
	wide := strings.Repeat("ü", (store.MaxName-len(r))/2-1)
	odd := []string{
		r, strings.ToUpper(r) + "A", strings.ToUpper(r) + "a", r + "A", r + "a",
		" " + r, r + " ", r + "  ", r + "\t", r + "\n", r + "\r\n", "\n" + r,
		r + "\x00", r + "\x00\x00", r + "\x00b", "\x00" + r,
		r + "/", "/" + r, r + "//", r + "/b", r + "//b", "../" + r, "./" + r, r + "/..", r + ".", r + "..", "." + r,
		"{" + r + "}", r + "{}", "{" + r + "}b", "{}" + r, "}" + r + "{", r + "{b}",
		r + `\`, r + `\\`, r + "%2F", r + "%2f", r + "%", r + "*", r + "?", r + "[a]", r + "$", r + ":", r + "::", r + "|",
		r + "'", r + `"`, r + "`", r + "; --", r + ",", r + "=", r + "&", r + "#", r + "~", r + "_", r + "-", r + "+",
		r + "é", r + "e\u0301", r + "É", r + "ß", r + "ss", r + "SS", r + "ı", r + "i", r + "I", r + "İ", r + "K", r + "k", r + "\u212a",
		r + "锁", r + "🔒", r + "\u200b", r + "\ufeff", r + "\u2028", r + "\u007f", r + "\u0080",
		long + r, long + r + "y", long + r + "Y", strings.ToUpper(long) + r, r + wide, r + wide + "ü", r + wide + "Ü",
		".lock" + r, r + ".lock", "con" + r, "CON" + r, r + ":last", r + ".tmp",
	}
	// Lengths at which some store may cut a name, and others: a cut name would equal another.
	for _, n := range []int{64, 65, 66, 127, 128, 129, 191, 192, 254, 255, 256, 257, 300, 383, 384, 499, 500, store.MaxName - 1, store.MaxName} {
		head := r + strings.Repeat("z", n-len(r)-1)
		odd = append(odd, head+"1", head+"2")
	}
	return odd
}

// bareNames are names with a special meaning elsewhere. They are the same in
// every run, so they may be in use.
var bareNames = []string{".", "..", "/", " ", "*", "?", "\x00", "\n", "0", "-", "{}", "'", "nul", "CON", "🔒", strings.Repeat("\\", store.MaxName)}

var namePromises = []promise{
	{name: "two_names_never_meet", run: func(t *trial) {
		a, b := t.client(), t.client()
		tokens, asked := map[string]*held{}, 0
		renew := func() { // renews all holds at every eighth call: on a slow machine the test takes longer than their TTL
			if asked++; asked%8 != 0 {
				return
			}
			var all []store.Hold
			for _, h := range tokens {
				all = append(all, h.Hold)
			}
			for i, r := range a.Renew(t.ctx, all) {
				if r.Err != nil {
					t.Fatalf("renewal of %q: got %v, want it held", all[i].Name, r.Err)
				}
			}
		}
		for _, name := range oddNames() {
			if len(name) > store.MaxName || tokens[name] != nil {
				t.Fatalf("the test is wrong about %q", name)
			}
			renew()
			c := a.lock(name, try)
			r, err := a.Ask(t.ctx, c)
			if err != nil || !r.Granted {
				t.Fatalf("name %q, %d bytes: got %+v, %v, want granted", name, len(name), r, err)
			}
			tokens[name] = &held{c: a, Hold: store.Hold{Name: name, ID: c.ID, Token: r.Token, TTL: c.TTL}}
		}
		for name := range tokens {
			renew()
			r, err := b.Ask(t.ctx, b.lock(name, try))
			if err != nil || r.Granted {
				t.Fatalf("name %q a second time: got %+v, %v, want refused", name, r, err)
			}
			if !t.lacks(store.PromiseHolders) && (len(r.Holders) != 1 || r.Holders[0].Token != tokens[name].Token) {
				t.Fatalf("name %q is held with token %d, but the store reports %+v", name, tokens[name].Token, r.Holders)
			}
		}
	}},
	{name: "names_differ_in_case", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		long := strings.Repeat("n", store.MaxName-len(name)) + name
		for _, n := range []string{name, long} {
			a.take(a.lock(n, try))
			b.take(b.lock(strings.ToUpper(n), try))
			a.refused(a.lock(strings.ToUpper(n), try))
			b.refused(b.lock(n, try))
		}
	}},
	{name: "names_differ_in_trailing_blanks", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		for _, n := range []string{name, name + " ", name + "  ", name + "\x00"} {
			a.take(a.lock(n, try))
			b.refused(b.lock(n, try))
		}
	}},
	{name: "a_name_that_means_something_elsewhere_is_only_a_name", run: func(t *trial) {
		a, b := t.client(), t.client()
		for _, name := range bareNames {
			h := a.wait(a.lock(name))
			b.refused(b.lock(name, try))
			h.renewed()
			t.entries(name, h.ID)
			h.release()
		}
	}},
	{name: "a_name_is_listed_as_it_was_given", needs: inspect, run: func(t *trial) {
		a := t.client()
		var all []*held
		for _, name := range oddNames() {
			h := a.take(a.lock(name, ttl(max(t.long, min(t.d.MaxTTL, time.Hour))))) // there are many
			t.entries(name, h.ID)                                                   // checks the name too
			all = append(all, h)
		}
		listed := map[string]bool{}
		for st, err := range a.Store.(store.Inspector).List(t.ctx, "") {
			if err == nil {
				listed[st.Name] = true
			}
		}
		for _, h := range all {
			if !listed[h.Name] {
				t.Fatalf("%q is held, but missing in the list of all names", h.Name)
			}
			h.release()
		}
	}},
	{name: "a_notification_has_the_name_as_it_was_given", watch: true, run: func(t *trial) {
		a, b := t.client(), t.client().watch()
		for _, name := range oddNames() {
			h := a.take(a.lock(name))
			w := b.lock(name)
			b.refused(w)
			h.release()
			b.woken(w)
		}
	}},
}
