package redlock

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/redisstore/internal/redislua"
	"github.com/holdfast-go/holdfast/store/embedded"
)

//go:embed lua
var lua embed.FS

var luaDir = embedded.Dir(lua, "lua")

// A script is an operation that a node runs.
type script struct {
	name string
	text string
	sha  string
}

// call returns the command that runs the script.
func (sc *script) call(keys int, args ...string) []any {
	all := make([]any, 0, 4+len(args)) // tests append one more
	all = append(all, "evalsha", sc.sha, keys)
	for _, a := range args {
		all = append(all, a)
	}
	return all
}

// announced adds the argument that makes a script publish its change, if the claim or hold wants that.
func announced(is bool, args ...string) []string {
	if is { //mutant:redlock-announces-each-lock
		args = append(args, "announce")
	}
	return args
}

type scripts struct{ ask, renew, release, brk, view script }

func (s *scripts) all() []*script {
	return []*script{&s.ask, &s.renew, &s.release, &s.brk, &s.view}
}

// live are the scripts of every Store, except in some tests.
var live = sync.OnceValue(func() *scripts { return load(func(text string) string { return text }) })

// clocked are scripts that take the time, in µs, as their last argument instead of reading the
// node's clock: for tests.
var clocked = sync.OnceValue(func() *scripts {
	return load(func(text string) string {
		return strings.ReplaceAll(text, "redis.call('TIME')", "{ 0, ARGV[#ARGV] }")
	})
})

func load(edit func(string) string) *scripts {
	one := func(name string) script {
		text := edit(embedded.Text(name+".lua", luaDir, redislua.Files))
		sum := sha1.Sum([]byte(text))
		return script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
	}
	return &scripts{ask: one("ask"), renew: one("renew"), release: one("release"), brk: one("break"), view: one("view")}
}
