//go:build !holdfast_lean

package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startUI starts holdfast ui, and returns the address that it prints. At the end of the test it must end by TERM.
func startUI(t *testing.T, store string, args ...string) (address string) {
	t.Helper()
	cmd := exec.Command("holdfast", append([]string{"ui", "--store", store}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stuck := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer stuck.Stop()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 128+15 {
			t.Errorf("holdfast ui: got exit code %d, want 143", code)
		}
	})
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// It serves only this host, and only requests with the token.
func TestUIIsOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	address, token, ok := strings.Cut(startUI(t, fileStore(t)), "/#token=")
	at := strings.TrimPrefix(address, "http://")
	host, port, err := net.SplitHostPort(at)
	if !ok || err != nil || host != "127.0.0.1" || len(token) < 26 {
		t.Fatalf("got address %s and token %s", address, token)
	}
	get := func(path, host, token string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	for _, c := range []struct {
		path, host, token string
		want              int
	}{
		{"/", at, "", 200},
		{"/state", at, token, 200},
		{"/state", at, "", 401},
		{"/state", "evil.example:" + port, token, 421},
	} {
		if code, body := get(c.path, c.host, c.token); code != c.want {
			t.Errorf("%+v: got %d %s", c, code, body)
		}
	}
	// 127.0.0.2 is this host as well; a server that listens on all addresses would answer there.
	if conn, err := net.Dial("tcp", "127.0.0.2:"+port); err == nil {
		conn.Close()
		t.Error("ui listens on more than 127.0.0.1")
	}
}

func TestUISaysWhatIsWrongWithItsFlags(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for args, says := range map[string]string{
		"--every 100ms":    "not read more than once a second",
		"--port " + port:   "127.0.0.1:" + port + " cannot be used",
		"--port 0.0.0.0:1": "--port",
		"here":             "",
	} {
		cmd := exec.Command("holdfast", append([]string{"ui", "--store", fileStore(t)}, strings.Fields(args)...)...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), says) {
			t.Errorf("%s: got exit code %d: %s", args, cmd.ProcessState.ExitCode(), out)
		}
	}
}
