package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redisstore/internal/redislua"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/embedded"
)

//go:embed lua
var lua embed.FS

var luaDir = embedded.Dir(lua, "lua")

// A script is an operation that the server runs.
type script struct {
	name  string
	text  string
	sha   string
	gives string // first bytes of the answers that grant or extend something
}

type scripts struct{ ask, poll, release, renew, together, change, brk, view script }

// A shape has the parameters of the stored format: the children per tree node, and the
// maximum number of entries in a string.
type shape struct{ fanout, fewest int }

// usual is the shape of every Store except in tests, which build higher trees.
var usual = shape{fanout: 16, fewest: 12} //mutant:redis-few

// live are the scripts of every Store with the default TokenRetention. They are made with
// the first Store, so that programs without one do not pay for them before main.
var live = sync.OnceValue(func() *scripts { return load(store.TokenRetention, false, usual) })

// load makes the scripts for a token retention. Constants in the text cost the server
// nothing. A clocked script takes the time, in µs, as its last argument instead of reading
// the server's: for tests that compare the scripts with package queue.
func load(retention time.Duration, clocked bool, sh shape) *scripts {
	ms := (retention + time.Millisecond - 1) / time.Millisecond
	edits := []string{"RETENTION", strconv.FormatInt(int64(ms), 10), "FANOUT", strconv.Itoa(sh.fanout), "FEWEST", strconv.Itoa(sh.fewest), "LIFE", strconv.FormatInt(sessionLife.Milliseconds(), 10)}
	if clocked {
		edits = append(edits, "redis.call('TIME')", "{ 0, ARGV[#ARGV] }")
	}
	edit := strings.NewReplacer(edits...).Replace
	one := func(name, gives string) script {
		text := edit(embedded.Text(name+".lua", luaDir, redislua.Files))
		sum := sha1.Sum([]byte(text))
		return script{name: name, text: text, sha: hex.EncodeToString(sum[:]), gives: gives}
	}
	return &scripts{
		ask:      one("ask", "G0123456789"), //mutant:redis-grants-confirmed
		renew:    one("renew", "H"),         //mutant:redis-renewals-confirmed
		together: one("together", "H"),      //mutant:redis-sessions-confirmed
		change:   one("change", "G"),        //mutant:redis-upgrades-confirmed
		poll:     one("poll", ""), release: one("release", ""), brk: one("break", ""), view: one("view", ""),
	}
}
