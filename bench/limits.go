package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Where there is no server, these show the least that a lock with a token and a deadline costs: what a pair of
// holdfast takes beyond that is its own.

const (
	leaseAlone = "a token and a deadline alone"
	twoAlone   = "two empty Go processes … true"
)

// fileWrites is one name: a record behind a flock on another file, so that a reader never sees half of it.
type fileWrites struct{ guard, record *os.File }

func openFileWrites(dir string) (locks, error) {
	open := func(name string) (*os.File, error) {
		return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	}
	guard, err := open("writes.guard")
	if err != nil {
		return nil, err
	}
	record, err := open("writes")
	if err != nil {
		guard.Close()
		return nil, err
	}
	return &fileWrites{guard, record}, nil
}

// A fileRecord is what fileWrites stores. A deadline of 0: the name is free.
type fileRecord struct {
	Token    uint64
	Deadline int64 // in nanoseconds
	Owner    [32]byte
}

var sizeOfRecord = binary.Size(fileRecord{})

func (p *fileWrites) lock(context.Context, string) (func() error, error) {
	var token uint64
	err := p.change(func(r *fileRecord) bool {
		now := time.Now()
		if r.Deadline > now.UnixNano() {
			return false
		}
		r.Token++
		r.Deadline = now.Add(ttl).UnixNano()
		copy(r.Owner[:], someOwner)
		token = r.Token
		return true
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		return p.change(func(r *fileRecord) bool {
			if r.Token != token || string(r.Owner[:]) != someOwner {
				return false
			}
			r.Deadline = 0
			return true
		})
	}, nil
}

// change reads the record, and writes it if apply returns true.
func (p *fileWrites) change(apply func(*fileRecord) bool) error {
	if err := flockOn(p.guard, unix.LOCK_EX); err != nil {
		return err
	}
	defer flockOn(p.guard, unix.LOCK_UN)
	data := make([]byte, sizeOfRecord)
	var r fileRecord
	if n, _ := p.record.ReadAt(data, 0); n == len(data) {
		if _, err := binary.Decode(data, binary.LittleEndian, &r); err != nil {
			return err
		}
	}
	if !apply(&r) {
		return errTaken
	}
	if _, err := binary.Encode(data, binary.LittleEndian, &r); err != nil {
		return err
	}
	_, err := p.record.WriteAt(data, 0)
	return err
}

func (p *fileWrites) close() error {
	p.guard.Close()
	return p.record.Close()
}

// memoryLease is a lock in memory whose grants are leases: each has a token, a deadline and a channel for its loss.
type memoryLease struct {
	mu    sync.Mutex
	names map[string]*memoryName
}

type memoryName struct {
	token  int64
	holder *oneLease
}

type oneLease struct {
	token    int64
	deadline time.Time
	lost     chan struct{}
}

func (m *memoryLease) lock(name string) (*oneLease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, now := m.names[name], time.Now()
	if n == nil {
		n = &memoryName{}
		m.names[name] = n
	}
	if n.holder != nil && now.Before(n.holder.deadline) {
		return nil, errTaken
	}
	n.token++
	n.holder = &oneLease{n.token, now.Add(ttl), make(chan struct{})}
	return n.holder, nil
}

func (m *memoryLease) unlock(name string, l *oneLease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[name]
	if n == nil || n.holder != l || !time.Now().Before(l.deadline) {
		return fmt.Errorf("the lease with token %d has ended", l.token)
	}
	n.holder = nil
	return nil
}
