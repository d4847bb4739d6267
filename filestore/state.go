package filestore

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// How the state file of a name is read and written, by a process that is in its section.

// unchanged reports whether the file was not written since this process last read or wrote
// it, so that the queue need not be read again. The next writer, whichever process it is,
// writes the slot fl.next with a larger sequence number.
func (fl *file) unchanged() bool {
	if !fl.fresh {
		return false
	}
	h, ok := headIn(fl.f, fl.next)
	return ok && h.seq < fl.seq
}

// read reads the state of a file and returns the name that the file belongs to: empty if
// the file was never used, or not since a power failure.
func (s *Store) read(fl *file) (name string, err error) {
	fl.fresh, fl.short = false, false
	found, err := s.pick(fl)
	if err != nil || found == nil {
		fl.q = queue.Queue{Entries: fl.q.Entries[:0]}
		return "", err
	}
	if string(found.boot) != s.boot && s.rebooted(fl) { //mutant:file-other-boot
		s.keepLiving(&fl.q)
	}
	if string(found.name) == fl.name {
		fl.fresh = true
		return fl.name, nil
	}
	return string(found.name), nil
}

// A record is the valid record found in a slot. Its queue is in the file.
type record struct{ name, boot []byte }

// pick reads both slots and leaves the state in fl: the valid record with the higher
// sequence number. It returns nil if there is no valid record: the file was never used, or
// a power failure damaged it.
func (s *Store) pick(fl *file) (found *record, err error) {
	if cap(fl.buf) < page {
		fl.buf = make([]byte, page)
	}
	first := fl.buf[:page]
	n, err := fl.f.ReadAt(first, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	clear(first[n:])
	var parts [slots][]byte
	var heads [slots]head
	order := [slots]int{-1, -1} // the slots that look like records, newest first
	used := false
	for i := range slots {
		parts[i] = first[i*near : (i+1)*near : (i+1)*near]
		h, ok := parseHead(parts[i])
		heads[i] = h
		switch {
		case !ok:
			used = used || len(bytes.Trim(parts[i], "\x00")) > 0
		case order[0] < 0:
			order[0] = i
		case h.seq > heads[order[0]].seq:
			order = [slots]int{i, order[0]}
		default:
			order[1] = i
		}
	}
	for _, i := range order {
		if i < 0 {
			continue
		}
		b := parts[i]
		if size := headSize + heads[i].length; size > near {
			b = append(make([]byte, 0, size), b...)[:size]
			at, _ := place(i, near)
			if n, err := fl.f.ReadAt(b[near:], at); err == io.EOF {
				b = b[:near+n]
			} else if err != nil {
				return nil, err
			}
		}
		name, boot, err := parseRecord(b, &fl.q)
		if err == nil {
			fl.seq, fl.next, fl.size = heads[i].seq, (i+1)%slots, headSize+heads[i].length
			return &record{name, boot}, nil
		}
		if err != errBadRecord {
			return nil, err
		}
		used = true
	}
	if used && !s.beforeBoot(fl) { // before this boot, a power failure may have left it half written, and its holds have ended
		return nil, errBadRecord
	}
	fl.seq, fl.next, fl.size = 0, 0, 0
	return nil, nil
}

// headIn reads the head of a slot. It is false if there is none, or it cannot be read.
func headIn(f *os.File, slot int) (h head, ok bool) {
	var b [headSize]byte
	at, _ := place(slot, 0)
	n, err := f.ReadAt(b[:], at)
	if err != nil {
		return h, false
	}
	return parseHead(b[:n])
}

// newestIn returns the sequence number of the newest record in a state file, read without
// the lock; 0 if there is none or it cannot be read.
func newestIn(path string) (seq uint64) {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for slot := range slots {
		if h, ok := headIn(f, slot); ok {
			seq = max(seq, h.seq)
		}
	}
	return seq
}

// write writes the queue over the older slot. It does not sync: the page cache outlives the
// process, and a reboot voids every entry anyway. With comes set, for a new claim, it
// requires space for all later states of the entries.
func (s *Store) write(fl *file, comes bool) error {
	fl.buf = appendRecord(fl.buf[:0], fl.seq+1, fl.name, s.boot, &fl.q)
	if len(fl.buf) > longest || comes && mostFor(fl.name, s.boot, len(fl.q.Entries)) > longest { //mutant:file-queue-full
		return fmt.Errorf("%w: the queue is full: %d entries are more than its file has room for", store.ErrUnavailable, len(fl.q.Entries))
	}
	if err := fl.reserve(roomFor(fl.name, s.boot, len(fl.q.Entries))); err != nil && comes { //mutant:file-room-needed-to-come
		return err
	}
	if err := fl.put(fl.next, 0, fl.buf); err != nil {
		return err
	}
	fl.fresh, fl.seq, fl.next, fl.size = true, fl.seq+1, (fl.next+1)%slots, len(fl.buf)
	if len(fl.q.Entries) == 0 && !fl.short { //mutant:file-page-at-rest
		fl.cut()
	}
	return nil
}

// cut frees the unused space of a longer record. It may fail.
func (fl *file) cut() {
	info, err := fl.f.Stat()
	if err != nil || info.Size() > page && fl.f.Truncate(page) != nil {
		return
	}
	fl.short, fl.room = true, min(fl.room, near)
}

// reserve makes the file system allocate both slots before the record in buf is written, so
// that every renewal and release can still be written if the disk is full later. It writes
// zeros behind the two records, which works on every file system and which readers ignore.
func (fl *file) reserve(room int) error {
	if fl.room > near { // check the length: another process may have cut the file
		info, err := fl.f.Stat()
		if err != nil {
			return err
		}
		if end, _ := place(slots-1, fl.room); info.Size() < end { //mutant:file-room-cut
			fl.room = 0
		}
	}
	if room <= fl.room { //mutant:file-room-reserved
		return nil
	}
	zeros := make([]byte, room)
	newest := (fl.next + 1) % slots
	for slot, used := range map[int]int{newest: fl.size, fl.next: len(fl.buf)} { //mutant:file-room-of-slots
		if used < room {
			if err := fl.put(slot, used, zeros[used:]); err != nil {
				return err
			}
		}
	}
	fl.room, fl.short = room, false
	return nil
}

// put writes b into a slot, from byte i of the slot on. It writes the beginning last,
// because that makes the record valid.
func (fl *file) put(slot, i int, b []byte) error {
	at, follow := place(slot, i)
	if len(b) > follow {
		if err := fl.put(slot, i+follow, b[follow:]); err != nil {
			return err
		}
		b = b[:follow]
	}
	return writeSlot(fl.f, b, at)
}

// writeSlot is a variable so that a test can show what a worse way of writing loses.
var writeSlot = func(f *os.File, record []byte, at int64) error {
	_, err := f.WriteAt(record, at)
	return err
}
