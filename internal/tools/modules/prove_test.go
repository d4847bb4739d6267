package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A user proves a lock of their own from a module of their own, with the prover from a proxy. The right lock is proved,
// and the classic bug of the other is found.
func TestAUserProvesALockOfTheirOwn(t *testing.T) {
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed: make servers")
	}
	env := packedTree(t)
	u := &user{t, t.TempDir(), append(env, "SETNX_REDIS=redis://"+redis(t, server))}
	files, err := filepath.Glob("prove/testdata/setnx/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("the module of a user is missing: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		u.write(filepath.Base(f), string(text))
	}
	u.do("go", "get", own+"@"+tried, own+"/prove@"+tried)
	u.do("go", "mod", "tidy")
	t.Log(u.do("go", "test", "-v", "-timeout", "15m", "."))
}

// redis starts a server and returns its address.
func redis(t *testing.T, server string) (addr string) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr = l.Addr().String()
		l.Close()
		cmd := exec.Command(server, "--bind", "127.0.0.1", "--port", fmt.Sprint(l.Addr().(*net.TCPAddr).Port), "--save", "", "--dir", t.TempDir())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { cmd.Process.Kill() })
		if answers(t, addr, ended) {
			return addr
		}
	}
}

// answers waits until the server answers. It is false if the server has ended, because another process had its port.
func answers(t *testing.T, addr string, ended <-chan error) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			defer c.Close()
			c.SetDeadline(end)
			if _, err := c.Write([]byte("PING\r\n")); err == nil {
				answer := make([]byte, 5)
				if _, err := io.ReadFull(c, answer); err == nil && string(answer) == "+PONG" {
					return true
				}
			}
		}
	}
	t.Fatal("Redis does not answer")
	return false
}
