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

// askMember bounds how long one member is waited for.
const askMember = 2 * time.Second

// Check implements [record.Backend]: it asks each member by name, and connects, which takes
// the rights that a lock takes.
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

// says is what a member answers to ZooKeeper's word srvr.
func (b *backend) says(ctx context.Context, member string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askMember)
	defer cancel()
	c, err := b.o.Dial(ctx, "tcp", member)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(0, 1)) })() // what is under way fails
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", err
	}
	said, err := io.ReadAll(io.LimitReader(c, 16<<10))
	if len(said) > 0 {
		err = nil // some links end without a farewell
	}
	if err != nil {
		return "", fmt.Errorf("it does not answer to srvr: %w", err)
	}
	return string(said), nil
}

// field is what a line that begins so goes on with.
func field(said, begin string) string {
	for lines := bufio.NewScanner(strings.NewReader(said)); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), begin); ok {
			return rest
		}
	}
	return ""
}
