package queue_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// The rule, by example. A line is: seconds | claim | operation | outcome, with the
// claims that it notifies. A TTL is 30 s and a position 10 s unless the line says otherwise.
var examples = []struct{ promise, story string }{
	{"claims are granted one at a time, in the order they came", `
		0 | a | write         | granted
		0 | b | write         | waits
		0 | c | write         | waits
		1 | c | again         | waits
		1 | a | release       | ok, wakes b
		1 | c | again         | waits
		1 | b | again         | granted
		2 | b | release       | ok, wakes c
		2 | c | release       | ok
		2 |   |               | nothing left`},
	{"readers share, and a waiting writer blocks later readers", `
		0 | a | read          | granted
		0 | b | read          | granted
		0 | w | write         | waits
		0 | c | try read      | refused
		0 | d | read          | waits
		1 | a | release       | ok
		1 | b | release       | ok, wakes w
		2 | w | release       | ok, wakes d`},
	{"a writer that gives up admits all readers behind it", `
		0 | a | read          | granted
		0 | w | write         | waits
		0 | b | read          | waits
		0 | c | read          | waits
		0 | w | withdraw      | ok, wakes b c`},
	{"a refused try leaves no entry", `
		0 | a | write         | granted
		0 | b | try write     | refused
		0 | a | release       | ok
		0 |   |               | nothing left`},
	{"slots are counted, and a narrow claim does not overtake a wide one", `
		0 | a | 2 of 3        | granted
		0 | b | 2 of 3        | waits
		0 | c | try 1 of 3    | refused
		0 | c | 1 of 3        | waits
		1 | a | release       | ok, wakes b c
		1 | d | try 1 of 3    | refused`},
	{"one upgradeable read holds with readers, two never do", `
		0 | a | read          | granted
		0 | u | upgradeable   | granted
		0 | b | try read      | granted
		0 | v | try upgradeable | refused
		0 | w | try write     | refused`},
	{"a lock and a semaphore mismatch while one holds, waits or blocks", `
		0 | a | 1 of 3        | granted
		0 | b | try write     | mismatch
		0 | a | release       | ok
		0 | b | write         | granted
		0 | c | 1 of 3        | mismatch`},
	{"while two totals are in use a claim has to fit the smaller", `
		0 | a | 2 of 5        | granted
		0 | b | 1 of 3        | granted
		0 | c | try 1 of 5    | refused
		0 | c | 1 of 5        | waits
		1 | b | release       | ok, wakes c
		1 | d | 2 of 5        | granted`},
	{"what is held stays held when the total falls", `
		0 | a | 4 of 5        | granted
		0 | b | 1 of 3        | waits
		5 | a | renew         | ok
		6 | b | again         | waits
		7 | a | release       | ok, wakes b`},
	{"a waiter is granted when it fits the smaller total", `
		0 | a | 1 of 3        | granted
		0 | b | 2 of 5        | granted
		0 | c | 3 of 5        | waits
		1 | b | release       | ok
		2 | a | release       | ok, wakes c`},
	{"a claim of more than the smaller total waits until it is no longer in use", `
		0 | a | 1 of 3        | granted
		0 | b | 5 of 5        | waits
		0 | c | 1 of 3        | waits
		1 | a | release       | ok, wakes b
		2 | b | release       | ok, wakes c`},
	{"a waiter asks the holder to give up, until it leaves", `
		0 | a | write         | granted
		0 | b | write asking  | waits, wakes a
		0 | b | again         | waits
		1 | a | renew         | ok, asked to give up
		1 | b | withdraw      | ok
		2 | a | renew         | ok`},
	{"a waiter asks later, and every holder is notified", `
		0 | a | read          | granted
		0 | b | read          | granted
		0 | w | write         | waits
		1 | b | renew         | ok
		1 | w | again asking  | waits, wakes a b
		2 | a | renew         | ok, asked to give up
		2 | b | renew         | ok, asked to give up`},
	{"a granted waiter no longer asks", `
		0 | a | write         | granted
		0 | b | write asking  | waits, wakes a
		1 | a | release       | ok, wakes b
		1 | b | again         | granted
		1 | c | write         | waits
		2 | b | renew         | ok`},
	{"a try asks no holder to give up", `
		0 | a | write            | granted
		0 | b | try write asking | refused
		1 | a | renew            | ok`},
	{"a lost hold is not asked to give up", `
		0  | a | read ttl=5   | granted
		0  | b | read         | granted
		0  | a | break        | ok
		1  | w | write asking | waits, wakes b`},
	{"an abandoned hold expires at its TTL, and its owner learns of it", `
		0  | a | write        | granted
		0  | b | write        | waits
		9  | b | again        | waits
		18 | b | again        | waits
		27 | b | again        | waits
		30 | b | again        | granted
		30 | a | renew        | lost
		30 | a | release      | lost
		30 | a | withdraw     | ok`},
	{"an expired hold is lost although no claim came", `
		0  | a | write        | granted
		30 | a | renew        | lost
		30 |   |              | nothing left`},
	{"an expired hold asked for again is lost, without a second entry", `
		0  | a | write        | granted
		30 | a | again        | lost
		30 |   |              | nothing left`},
	{"a claim that finds a hold expired wakes the waiter", `
		0  | a | write ttl=5  | granted
		0  | b | write        | waits
		5  | c | try write    | refused, wakes b
		5  | b | again        | granted`},
	{"a TTL of a year lasts for a year", `
		0        | a | write ttl=31536000 | granted
		31535999 | b | try write          | refused
		31536000 | b | try write          | granted`},
	{"a hold asked for again for a year lasts for a year more", `
		0        | a | write ttl=31536000 | granted
		31535999 | a | again              | granted
		63071998 | b | try write          | refused
		63071999 | b | try write          | granted`},
	{"a renewal for a year lasts for a year", `
		0        | a | write              | granted
		1        | a | renew ttl=31536000 | ok
		31536000 | b | try write          | refused
		31536001 | b | try write          | granted`},
	{"a hold that is renewed lasts for years", `
		0        | a | write ttl=31536000 | granted
		31535999 | a | renew ttl=31536000 | ok
		63071998 | a | renew ttl=31536000 | ok
		94607997 | b | try write          | refused
		94607998 | b | try write          | granted`},
	{"a dead waiter leaves the queue after the TTL of its position", `
		0  | a | write        | granted
		0  | b | write        | waits
		5  | c | write        | waits
		10 | a | renew        | ok
		11 | c | again        | waits
		12 | a | release      | ok, wakes c`},
	{"a position asked for too late is lost", `
		0  | a | write        | granted
		0  | b | write        | waits
		10 | b | again        | lost`},
	{"a grant that its owner has not read lasts as long as its position", `
		0  | a | write        | granted
		0  | b | write        | waits
		9  | a | release      | ok, wakes b
		9  | c | write        | waits
		10 | c | again        | granted`},
	{"a short TTL of one reader does not cut that of another", `
		0  | a | read ttl=60  | granted
		0  | b | read ttl=5   | granted
		6  | w | try write    | refused
		6  | b | renew        | lost
		6  | a | renew        | ok`},
	{"an expiry never moves back", `
		0  | a | write ttl=60 | granted
		1  | a | renew ttl=5  | ok
		30 | b | try write    | refused
		59 | a | renew        | ok`},
	{"a minimum hold counts once the owner has shown the token", `
		0  | a | write keep=20 | granted
		1  | a | release      | ok
		2  | b | try write    | refused
		2  | a | renew        | lost
		2  | a | again        | lost
		2  | a | release      | lost
		19 | b | try write    | refused
		20 | b | try write    | granted`},
	{"a minimum hold is kept past the expiry", `
		0  | a | write keep=20 ttl=5 | granted
		1  | a | renew ttl=5  | ok
		7  | a | renew        | lost
		7  | b | try write    | refused
		20 | b | try write    | granted`},
	{"a minimum hold of a year is kept for a year", `
		0        | a | write keep=31536000 | granted
		1        | a | release             | ok
		31535999 | b | try write           | refused
		31536000 | b | try write           | granted`},
	{"a hold that is given back after hours is kept for its minimum", `
		0        | a | write keep=31536000 ttl=31536000 | granted
		7200     | a | release             | ok
		31535999 | b | try write           | refused
		31536000 | b | try write           | granted`},
	{"a minimum hold is not kept before its owner has shown the token", `
		0  | a | write        | granted
		0  | b | write keep=600 | waits
		5  | a | release      | ok, wakes b
		10 | c | try write    | granted`},
	{"a claim given up before its owner saw the grant has no minimum hold", `
		0  | a | write keep=600 | granted
		1  | a | withdraw     | ok
		1  | b | try write    | granted`},
	{"a kept name keeps its limit", `
		0  | a | 1 of 3 keep=20 | granted
		1  | a | release      | ok
		1  | b | try write    | mismatch
		1  | b | try 3 of 3   | refused
		1  | b | try 2 of 3   | granted`},
	{"a lock delay closes the name after an expiry, and not after a release", `
		0  | a | write delay=15 ttl=5 | granted
		5  | a | renew        | lost
		5  | b | try write    | refused
		19 | b | try write    | refused
		20 | b | try write delay=15 | granted
		21 | b | release      | ok
		21 | c | try write    | granted`},
	{"a lock delay of a year closes the name for a year", `
		0        | a | write delay=31536000 ttl=5 | granted
		31536004 | b | try write                  | refused
		31536005 | b | try write                  | granted`},
	{"a broken hold is lost, and blocks until it is released or expires", `
		0  | a | write keep=600 | granted
		0  | b | write        | waits
		1  | a | renew        | ok
		2  | a | break        | ok
		2  | a | renew        | lost
		2  | a | again        | lost
		3  | b | again        | waits
		4  | a | release      | ok, wakes b`},
	{"a break now admits the next at once", `
		0  | a | write delay=60 | granted
		0  | b | write        | waits
		1  | a | break now    | ok, wakes b
		1  | a | renew        | lost
		1  | a | release      | lost
		1  | b | renew        | lost
		1  | b | again        | granted
		1  | b | renew        | ok`},
	{"only a hold can be broken", `
		0  | a | write        | granted
		0  | b | write        | waits
		0  | b | break now    | lost
		0  | c | break now    | lost`},
	{"an upgrade is granted at once if no other holds", `
		0  | u | upgradeable  | granted
		1  | u | upgrade      | granted
		1  | a | try read     | refused
		1  | u | renew        | ok
		2  | u | release      | ok
		2  |   |              | nothing left`},
	{"an upgrade waits for the readers, and passes all waiters", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | w | write        | waits
		0  | b | read         | waits
		1  | u | upgrade      | pending
		1  | u | renew        | ok
		1  | c | try read     | refused
		2  | a | release      | ok, wakes u
		2  | u | renew        | ok
		2  | w | again        | waits
		3  | u | release      | ok, wakes w`},
	{"a pending upgrade admits no claim that would fit", `
		0  | a | read         | granted
		0  | b | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		1  | a | release      | ok
		1  | c | try read     | refused
		1  | d | read         | waits
		2  | b | release      | ok, wakes u
		3  | u | downgrade    | granted, wakes d`},
	{"a canceled upgrade admits those that fit", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		0  | b | read         | waits
		0  | w | write        | waits
		1  | u | cancel       | granted, wakes b
		1  | c | read         | waits
		2  | a | release      | ok
		2  | b | release      | ok
		2  | u | release      | ok, wakes w`},
	{"a cancel that comes after the grant gives the weight back", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		1  | a | release      | ok, wakes u
		2  | u | cancel       | granted
		2  | b | try read     | granted`},
	{"a downgrade admits readers, and no writer between", `
		0  | u | upgradeable  | granted
		0  | u | upgrade      | granted
		0  | a | read         | waits
		0  | w | write        | waits
		1  | u | downgrade    | granted, wakes a
		1  | a | again        | granted
		1  | u | renew        | ok
		2  | v | try upgradeable | refused`},
	{"a late copy of an upgrade does nothing", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade turn=1 | pending
		1  | u | cancel turn=2 | granted
		1  | u | upgrade turn=1 | not applied
		1  | b | try read     | granted
		2  | a | release      | ok
		2  | b | release      | ok
		2  | u | upgrade turn=1 | not applied
		3  | u | upgrade turn=3 | granted
		3  | u | downgrade turn=4 | granted
		4  | u | upgrade turn=3 | not applied
		4  | u | cancel turn=2 | granted
		4  | b | try read     | granted`},
	{"a change that is repeated changes nothing more", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade turn=1 | pending
		0  | u | upgrade turn=1 | pending
		1  | a | release      | ok, wakes u
		1  | u | upgrade turn=1 | granted
		1  | u | upgrade turn=1 | granted`},
	{"a pending upgrade ends with its hold", `
		0  | a | read ttl=60  | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		25 | b | read         | waits
		30 | b | again        | granted
		30 | u | upgrade      | lost
		30 | u | cancel       | lost`},
	{"a pending upgrade of an expired hold is void while the hold blocks", `
		0  | a | read ttl=60  | granted
		0  | u | upgradeable delay=60 | granted
		0  | u | upgrade      | pending
		25 | b | read         | waits
		30 | b | again        | granted
		30 | v | try upgradeable | refused`},
	{"a break ends a pending upgrade", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		0  | b | read         | waits
		1  | u | break        | ok, wakes b
		1  | u | cancel       | lost`},
	{"a release during a pending upgrade leaves nothing", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		0  | w | write        | waits
		1  | u | release      | ok
		2  | a | release      | ok, wakes w`},
	{"only an upgradeable hold can be changed", `
		0  | a | read         | granted
		0  | a | upgrade      | invalid
		0  | a | downgrade    | invalid
		0  | a | release      | ok
		0  | w | write        | granted
		0  | w | downgrade    | invalid
		0  | v | upgradeable  | waits
		0  | v | upgrade      | lost
		1  | b | try read     | refused
		2  | w | release      | ok, wakes v`},
	{"a semaphore's slots are no upgradeable read", `
		0  | a | 536870913 of 1073741823 | granted
		0  | a | upgrade      | invalid
		0  | a | cancel       | invalid`},
	{"an expired hold cannot be changed", `
		0  | u | upgradeable  | granted
		30 | u | upgrade      | lost
		30 |   |              | nothing left`},
	{"a minimum hold lasts through an upgrade", `
		0  | u | upgradeable keep=20 | granted
		1  | u | renew        | ok
		1  | u | upgrade      | granted
		2  | u | release      | ok
		2  | a | try read     | refused
		20 | a | try read     | granted`},
	{"a hold goes on under another id, and under that alone", `
		0  | a | write        | granted
		1  | a | renew as=b   | ok
		1  | a | renew as=b   | ok
		1  | a | renew as=c   | lost
		2  | a | renew        | lost
		2  | a | again        | waits
		2  | a | withdraw     | ok
		20 | b | renew as=c   | ok
		20 | b | release      | lost
		49 | d | try write    | refused
		49 | c | release      | ok
		49 |   |              | nothing left`},
	{"a hold adopted too late is lost", `
		0  | a | write        | granted
		30 | a | renew as=b   | lost
		30 | b | renew        | lost
		30 |   |              | nothing left`},
	{"a withdrawn hold keeps no minimum, shown or not", `
		0  | a | write keep=20 | granted
		1  | a | renew        | ok
		1  | b | write        | waits
		2  | a | withdraw     | ok, wakes b
		2  | b | release      | ok
		2  |   |              | nothing left`},
	{"a waiting entry does not change its id", `
		0  | a | write        | granted
		0  | b | write        | waits
		0  | b | renew as=c   | lost
		1  | a | release      | ok, wakes b`},
	{"a release with token 0 removes whatever the id has", `
		0  | a | write        | granted
		0  | b | write        | waits
		0  | c | withdraw     | ok
		0  | b | withdraw     | ok
		0  | a | withdraw     | ok
		0  |   |              | nothing left`},
}

func TestTheRuleByExample(t *testing.T) {
	for _, e := range examples {
		t.Run(strings.ReplaceAll(e.promise, " ", "_"), func(t *testing.T) {
			s := scene{ids: map[string]store.ID{}, claims: map[string]store.Claim{}}
			for _, line := range strings.Split(strings.TrimSpace(e.story), "\n") {
				part := strings.Split(line, "|")
				for i := range part {
					part[i] = strings.TrimSpace(part[i])
				}
				if have := s.do(t, part[0], part[1], part[2]); have != part[3] {
					t.Fatalf("%s\ngot: %s", strings.TrimSpace(line), have)
				}
			}
		})
	}
}
