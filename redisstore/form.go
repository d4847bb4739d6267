package redisstore

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// The stored format, which the package comment describes. lua/line.lua (a string) and
// lua/tree.lua (a hash) implement it on the server. view.lua returns a hash in the format
// of the string, so this file reads only that.
const (
	magic    = "hf"
	version  = 3
	headSize = len(magic) + 1 + 8
)

var le = binary.LittleEndian

// entry is an entry as stored, without the owner and the reason that follow it.
type entry struct {
	Token, Since, Expires     float64
	ID                        [32]byte
	MinHold                   float64
	Owner                     uint16 // length
	Reason                    uint8  // length: why it was broken, or (a waiter or a pending upgrade) why it asks the holders to give up
	LockDelay, UpgradeToken   float64
	Limit, Weight, Want, Turn uint32
	N                         uint16
	Flags                     uint8
}

const (
	entrySize   = 102
	flagGranted = 1
	flagShown   = 2
)

// claimed returns the entry of a claim, from the id on, as it is once granted. The script
// stores it without reading it.
func claimed(c *store.Claim) string {
	b := make([]byte, 0, entrySize+len(c.Owner))
	b = hex.AppendEncode(b, c.ID[:])
	b = appendFloat(b, micros(c.MinHold))
	b = le.AppendUint16(b, uint16(len(c.Owner)))
	b = append(b, 0) // reason
	b = appendFloat(b, micros(c.LockDelay))
	b = appendFloat(b, 0) // upgrade token
	b = le.AppendUint32(b, uint32(c.Limit))
	b = le.AppendUint32(b, uint32(c.Weight))
	b = le.AppendUint32(b, uint32(c.Weight)) // want
	b = le.AppendUint32(b, 0)                // turn
	b = le.AppendUint16(b, uint16(c.Tokens()))
	b = append(b, flagGranted)
	return string(append(b, c.Owner...))
}

func appendFloat(b []byte, v int64) []byte { return le.AppendUint64(b, math.Float64bits(float64(v))) }

func float(s string) int64 { return int64(math.Float64frombits(le.Uint64([]byte(s[:8])))) }

// parse reads a stored value. The key is for errors.
func (s *Store) parse(key, value string) (q queue.Queue, err error) {
	if value == "" {
		return q, nil
	}
	if len(value) < headSize || !strings.HasPrefix(value, magic) {
		return q, s.corrupt(key)
	}
	if v := value[len(magic)]; v != '0'+version {
		return q, s.otherForm(key, v)
	}
	q.Last = float(value[len(magic)+1:])
	q.Entries, err = parseEntries(value[headSize:])
	if err != nil {
		return queue.Queue{}, s.corrupt(key)
	}
	return q, nil
}

func parseEntries(s string) (all []queue.Entry, err error) {
	for len(s) > 0 {
		var e entry
		if _, err := binary.Decode([]byte(s[:min(len(s), entrySize)]), le, &e); err != nil {
			return nil, err
		}
		s = s[entrySize:]
		owner := int(e.Owner)
		end := owner + int(e.Reason)
		if len(s) < end {
			return nil, fmt.Errorf("%d bytes behind an entry that says %d", len(s), end)
		}
		id, err := store.ParseID(string(e.ID[:]))
		if err != nil {
			return nil, err
		}
		all = append(all, queue.Entry{
			ID: id, Limit: int32(e.Limit), Weight: int32(e.Weight), Want: int32(e.Want), Turn: int32(e.Turn), N: e.N,
			Granted: e.Flags&flagGranted != 0, Shown: e.Flags&flagShown != 0,
			Token: int64(e.Token), UpgradeToken: int64(e.UpgradeToken), Since: int64(e.Since), Expires: int64(e.Expires),
			MinHold: int64(e.MinHold), LockDelay: int64(e.LockDelay),
			Owner: s[:owner],
		})
		if reason, last := s[owner:end], &all[len(all)-1]; reason != "" && last.Granted && last.Want == last.Weight {
			last.Broken = &reason // as package queue stores it
		} else if reason != "" {
			last.GiveUp = &reason
		}
		s = s[end:]
	}
	return all, nil
}

// micros rounds up, so that no hold is shorter than requested.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// escape keeps a brace in a name from ending the hash tag, and two names from sharing a key.
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

func (s *Store) channel(p store.Process) string { return s.prefix + "hint:" + p.String() }
