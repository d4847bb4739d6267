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

// A script is an operation as the server runs it.
type script struct {
	name  string
	text  string
	sha   string
	gives string // first bytes of the answers that give something to their owner
}

type scripts struct{ ask, poll, release, renew, together, change, brk, view script }

// A shape is what the stored form of a name depends on: how many children a node
// has, and up to how many entries are kept in a string.
type shape struct{ fanout, fewest int }

// usual is of every Store but those of tests, which make trees that are higher.
var usual = shape{fanout: 16, fewest: 12} //mutant:redis-few

// live are the scripts of every Store with the default TokenRetention. They are
// made with the first Store, so that programs without one do not pay for them
// before main.
var live = sync.OnceValue(func() *scripts { return load(store.TokenRetention, false, usual) })

// load makes the scripts for a retention of tokens. The server spends nothing
// on a number that is a part of the text. clocked scripts have the time, in µs,
// as their last argument instead of the server's: for tests that compare them
// with package queue.
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
