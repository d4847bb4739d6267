package zkstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// askMember bounds the wait for one member.
const askMember = 2 * time.Second

// Check implements [record.Backend]. It asks each member by its name, and connects, which needs the
// same rights as a lock.
func (b *backend) Check(ctx context.Context) (all []store.Finding) {
	for _, member := range b.servers {
		f := store.Finding{About: "member " + member}
		said, err := b.says(ctx, member)
		switch version, mode := field(said, "Zookeeper version: "), field(said, "Mode: "); {
		case err != nil:
			f.Warning, f.Found = true, "no answer: "+err.Error()
		case strings.Contains(said, "not currently serving"):
			f.Warning, f.Found = true, "it serves nobody: it is cut off from the others, or they are electing a leader"
		case version == "":
			f.Found = "ZooKeeper; its version is unknown, as it does not allow the command srvr"
		default:
			version, _, _ = strings.Cut(version, "-")
			f.Found = "ZooKeeper " + version + ", " + mode
		}
		all = append(all, f)
	}
	if _, err := b.connected(ctx); err != nil {
		if !store.Definite(err) {
			err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		all = append(all, store.Finding{About: "session", Err: fmt.Errorf("begin a session on %s: %w", b.address, err)})
	}
	return all
}

// says returns a member's answer to ZooKeeper's command srvr.
func (b *backend) says(ctx context.Context, member string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askMember)
	defer cancel()
	c, err := b.o.Dial(ctx, "tcp", member)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(0, 1)) })() // requests under way fail
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", err
	}
	said, err := io.ReadAll(io.LimitReader(c, 16<<10))
	if len(said) > 0 {
		err = nil // some connections end without a proper close
	}
	if err != nil {
		return "", fmt.Errorf("it does not answer to srvr: %w", err)
	}
	return string(said), nil
}

// field returns the rest of the line that begins with begin.
func field(said, begin string) string {
	for lines := bufio.NewScanner(strings.NewReader(said)); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), begin); ok {
			return rest
		}
	}
	return ""
}
