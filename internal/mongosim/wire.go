package mongosim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Message codes (manual, "MongoDB Wire Protocol").
const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013
)

const (
	maxMessage   = 48_000_000
	moreToCome   = 1 << 1
	checksum     = 1 << 0
	requiredBits = 1<<16 - 1
)

var le = binary.LittleEndian

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			c.Close()
		}
		s.conns[c] = true
		s.mu.Unlock()
		s.serving.Go(func() {
			s.serve(c)
			c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// serve answers on one connection until the connection ends.
func (s *Server) serve(c net.Conn) {
	for id := uint32(1); ; id++ {
		var head [16]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		n := le.Uint32(head[:])
		if n < uint32(len(head)) || n > maxMessage {
			return
		}
		body := make([]byte, n-uint32(len(head)))
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		code := le.Uint32(head[12:])
		command, silent, err := parse(code, body)
		if err != nil {
			return
		}
		reply, ok := s.answer(command)
		if !ok {
			return // close the connection
		}
		if silent {
			continue
		}
		if _, err := c.Write(message(code, id, le.Uint32(head[4:]), encode(reply))); err != nil {
			return
		}
	}
}

var errWire = errors.New("not understood")

// parse reads a message: a command and its document sequences, as one document.
func parse(code uint32, b []byte) (command bson.D, silent bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errWire, r)
		}
	}()
	switch code {
	case opQuery: // only the first message of a connection: flags, namespace, skip, limit, document
		end := 4
		for b[end] != 0 {
			end++
		}
		return decode(b[end+9:]), false, nil
	case opMsg:
		flags := le.Uint32(b)
		if flags&requiredBits&^uint32(moreToCome|checksum) != 0 {
			return nil, false, errWire
		}
		b = b[4:]
		if flags&checksum != 0 {
			b = b[:len(b)-4]
		}
		var beside bson.D
		for len(b) > 0 {
			n := 1 + le.Uint32(b[1:])
			section := b[:n]
			b = b[n:]
			switch section[0] {
			case 0:
				command = decode(section[1:])
			case 1:
				section = section[5:]
				end := 0
				for section[end] != 0 {
					end++
				}
				list := bson.A{}
				for docs := section[end+1:]; len(docs) > 0; docs = docs[le.Uint32(docs):] {
					list = append(list, decode(docs[:le.Uint32(docs)]))
				}
				beside = append(beside, bson.E{Key: string(section[:end]), Value: list})
			default:
				return nil, false, errWire
			}
		}
		return append(command, beside...), flags&moreToCome != 0, nil
	}
	return nil, false, errWire
}

// message encodes a reply in the format of its request.
func message(code, id, to uint32, doc []byte) []byte {
	b := make([]byte, 16, 64+len(doc))
	if code == opQuery {
		code = opReply
		b = append(b, make([]byte, 20)...) // flags, cursor, starting from, number returned
		le.PutUint32(b[32:], 1)
	} else {
		b = append(b, 0, 0, 0, 0, 0) // flags, and a section with a document
	}
	b = append(b, doc...)
	le.PutUint32(b, uint32(len(b)))
	le.PutUint32(b[4:], id)
	le.PutUint32(b[8:], to)
	le.PutUint32(b[12:], code)
	return b
}
