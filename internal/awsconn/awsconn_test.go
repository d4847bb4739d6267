package awsconn

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A body is one that the SDK has closed by the time that net/http looks for its end: it behaves as smithy-go's do.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.closed {
		return 0, io.EOF
	}
	n, err := b.Reader.Read(p)
	b.closed = true
	return n, err
}

func (b *body) WriteTo(w io.Writer) (int64, error) {
	if b.closed {
		return 0, io.EOF
	}
	b.closed = true
	return io.Copy(w, struct{ io.Reader }{b.Reader})
}

func (b *body) Close() error { return nil }

// A server answers before net/http has seen that the request is complete. The connection is used again.
func TestAnEarlyAnswerLeavesTheConnectionOpen(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer server.Close()
	var dialed atomic.Int64
	c, end, err := (&Service{Region: "us-east-1"}).Config(t.Context(), "a service", func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	const text = "a record"
	for range 10 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, &body{Reader: strings.NewReader(text)})
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = int64(len(text))
		answer, err := Whole(c.HTTPClient).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		if answer.Body.Close(); err != nil || string(got) != text {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if n := dialed.Load(); n != 1 {
		t.Errorf("10 requests took %d connections, want 1", n)
	}
}
