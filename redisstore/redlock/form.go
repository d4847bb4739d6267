package redlock

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The stored format, which the package comment describes. lua/node.lua implements it on
// the node.
const (
	magic    = "hl"
	version  = 1
	headSize = len(magic) + 1 + 8

	recordMagic = "hln1" // of the node's record about itself
)

var le = binary.LittleEndian

// fixed is an entry as stored, without the owner and the reason that follow it.
type fixed struct {
	Since, Expires, Order, P float64
	ID                       [32]byte
	MinHold                  float64
	Owner                    uint16 // length
	Reason                   uint8  // length
	LockDelay                float64
	Limit, Weight, Used      uint32
	N                        uint16
	Flags                    uint8
}

const (
	fixedSize    = 98
	flagGranted  = 1 // it fits here
	flagShown    = 2 // the owner has used the token, so MinHold applies
	flagAccepted = 4 // it fits, and P was above last: the node's vote for its owner
)

// An entry is a claim in the queue of one node. Times and durations are in microseconds;
// times are on the node's clock.
type entry struct {
	id                       store.ID
	order, p                 int64
	limit, weight            int64
	n                        int
	used                     int64 // tokens used of the block, after the first
	granted, accepted, shown bool
	since, expires           int64
	keep, delay              int64
	owner                    string
	reason                   string // why it was broken; if not accepted, why it asks the holders to give up
}

// pack returns the entry of a claim, from the order on, as it is once accepted. The script
// stores it without reading it.
func pack(c *store.Claim, order, p int64) string {
	b := make([]byte, 0, fixedSize+len(c.Owner))
	b = appendFloat(b, order)
	b = appendFloat(b, p)
	b = hex.AppendEncode(b, c.ID[:])
	b = appendFloat(b, micros(c.MinHold))
	b = le.AppendUint16(b, uint16(len(c.Owner)))
	b = append(b, 0) // reason
	b = appendFloat(b, micros(c.LockDelay))
	b = le.AppendUint32(b, uint32(c.Limit))
	b = le.AppendUint32(b, uint32(c.Weight))
	b = le.AppendUint32(b, 0) // used
	b = le.AppendUint16(b, uint16(c.Tokens()))
	b = append(b, flagGranted|flagAccepted)
	return string(append(b, c.Owner...))
}

// openRecord is a node's record about itself once it may grant.
func openRecord(maxTTL time.Duration) string {
	return string(appendFloat(appendFloat([]byte(recordMagic), micros(maxTTL)), 0))
}

func appendFloat(b []byte, v int64) []byte { return le.AppendUint64(b, math.Float64bits(float64(v))) }

func float(s string) int64 { return int64(math.Float64frombits(le.Uint64([]byte(s[:8])))) }

// parseEntries reads entries one after another.
func parseEntries(s string) (all []entry, err error) {
	for len(s) > 0 {
		var f fixed
		if _, err := binary.Decode([]byte(s[:min(len(s), fixedSize)]), le, &f); err != nil {
			return nil, err
		}
		s = s[fixedSize:]
		owner := int(f.Owner)
		end := owner + int(f.Reason)
		if len(s) < end {
			return nil, fmt.Errorf("%d bytes behind an entry that says %d", len(s), end)
		}
		id, err := store.ParseID(string(f.ID[:]))
		if err != nil {
			return nil, err
		}
		all = append(all, entry{
			id: id, order: int64(f.Order), p: int64(f.P), limit: int64(f.Limit), weight: int64(f.Weight), n: int(f.N), used: int64(f.Used),
			granted: f.Flags&flagGranted != 0, shown: f.Flags&flagShown != 0, accepted: f.Flags&flagAccepted != 0,
			since: int64(f.Since), expires: int64(f.Expires), keep: int64(f.MinHold), delay: int64(f.LockDelay),
			owner: s[:owner], reason: s[owner:end],
		})
		s = s[end:]
	}
	return all, nil
}

// ends returns when the entry stops blocking, unless it is renewed.
func (e *entry) ends() int64 {
	if !e.accepted {
		return e.expires
	}
	end := e.expires + e.delay
	if e.shown {
		end = max(end, e.since+e.keep)
	}
	return end
}

// broken returns why an operator broke the hold; "" if it was not broken.
func (e *entry) broken() string {
	if e.accepted {
		return e.reason
	}
	return ""
}

func (e *entry) asks() string {
	if !e.accepted {
		return e.reason
	}
	return ""
}

// parse reads a stored value. The key is for errors.
func (n *node) parse(key, value string) (last int64, all []entry, err error) {
	if value == "" {
		return 0, nil, nil
	}
	if len(value) < headSize || !strings.HasPrefix(value, magic) {
		return 0, nil, n.corrupt(key)
	}
	if v := value[len(magic)]; v != '0'+version {
		return 0, nil, n.newer(key, v)
	}
	if all, err = parseEntries(value[headSize:]); err != nil {
		return 0, nil, n.corrupt(key)
	}
	return float(value[len(magic)+1:]), all, nil
}

// micros rounds up, so that no hold is shorter than requested.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// escape keeps two names from sharing a key.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

func (s *Store) key(name string) string {
	if strings.ContainsAny(name, "%{}") {
		name = escape.Replace(name)
	}
	return s.prefix + "{" + name + "}"
}

// name returns the name that belongs to the key, or false if key never returns that key.
func (s *Store) name(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, s.prefix+"{")
	if !ok {
		return "", false
	}
	if name, ok = strings.CutSuffix(name, "}"); !ok || name == "" {
		return "", false
	}
	if strings.ContainsAny(name, "%{}") {
		name = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}").Replace(name)
	}
	return name, s.key(name) == key
}

func (s *Store) record() string { return s.prefix + "node" }

func (s *Store) channel(p store.Process) string { return s.prefix + "hint:" + p.String() }
