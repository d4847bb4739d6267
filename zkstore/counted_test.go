package zkstore

import (
	"bytes"
	"encoding/binary"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A counted server is a real one. The version of a node's data can be set in its snapshot.
type counted struct {
	*testserver.Server
	data string
}

func countedServer(t *testing.T) *counted {
	t.Helper()
	data := t.TempDir()
	// With the digest enabled, that would have to be recomputed, too.
	return &counted{testserver.ZooKeeper(t, "dataDir="+data, "digest.enabled=false"), data}
}

// set stops the server, sets the version of the node, and starts it again.
func (c *counted) set(t *testing.T, node string, version int32) {
	t.Helper()
	c.Kill()
	c.Restart() // a restart writes a snapshot of everything
	c.Kill()
	all, err := filepath.Glob(filepath.Join(c.data, "version-2", "snapshot.*"))
	if err != nil || len(all) == 0 {
		t.Fatalf("got snapshots %q, %v", all, err)
	}
	newest := slices.MaxFunc(all, func(a, b string) int {
		if len(a) != len(b) { // they are numbered in hexadecimal
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	b, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	// A record is the path, the data, the number of its ACL, and the stat of the node: two transactions and two times
	// come before its version.
	path := binary.BigEndian.AppendUint32(nil, uint32(len(node)))
	path = append(path, node...)
	at := bytes.Index(b, path)
	if at < 0 {
		t.Fatalf("the snapshot lacks the node %s", node)
	}
	at += len(path)
	if n := int32(binary.BigEndian.Uint32(b[at:])); n > 0 {
		at += int(n)
	}
	at += 4 + 8 + 4*8
	binary.BigEndian.PutUint32(b[at:], uint32(version))
	// The end is a checksum of everything before it, and a path.
	const end = 8 + 4 + 1
	if !bytes.HasSuffix(b, []byte{0, 0, 0, 1, '/'}) {
		t.Fatalf("the snapshot ends with %x", b[len(b)-end:])
	}
	binary.BigEndian.PutUint64(b[len(b)-end:], uint64(adler32.Checksum(b[:len(b)-end])))
	if err := os.WriteFile(newest, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Restart()
}
