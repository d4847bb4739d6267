package zkstore

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// On a connection that is not the first of its session the greeting and the answers to who
// we are can be read at once, and nothing else before the driver has told what is watched.
func TestNoAnswerIsReadBeforeItIsToldWhatIsWatched(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, &Options{Auth: []Auth{{"digest", "a:b"}}}, "127.0.0.1:1"))
	ours, theirs := net.Pipe()
	c := &greeted{Conn: ours, w: &wire{s: s}, hold: true, told: make(chan struct{}), gone: make(chan struct{})}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer c.Close()
	defer theirs.Close()
	tasks.Go(func() { io.Copy(io.Discard, theirs) })
	tasks.Go(func() {
		for _, length := range []int{36, 16, 20} { // the greeting, who we are, an answer
			theirs.Write(binary.BigEndian.AppendUint32(nil, uint32(length)))
			theirs.Write(make([]byte, length))
		}
	})
	message := func(length int) {
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(c, make([]byte, length)); err != nil {
			t.Error(err)
		}
	}
	began := time.Now()
	message(36)
	message(16)
	var told atomic.Bool
	read := make(chan struct{})
	tasks.Go(func() {
		defer close(read)
		message(20)
		if !told.Load() && time.Since(began) < longestHold {
			t.Error("the answer was read before that was told")
		}
	})
	time.Sleep(20 * time.Millisecond)
	told.Store(true)
	packet := make([]byte, 20)
	binary.BigEndian.PutUint32(packet[8:], setWatches)
	if _, err := c.Write(packet); err != nil {
		t.Error(err)
	}
	<-read
}
