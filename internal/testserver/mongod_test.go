package testserver

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// No test shows that a mongod really starts with these flags. They follow the manual for 4.4 to 8.0, as no mongod was
// available.
func TestAMongodGetsItsPortDirectoryAndExtraFlags(t *testing.T) {
	dir := t.TempDir()
	cmd := mongodServer(t, "/usr/bin/mongod", dir, filepath.Join(dir, "data"), 4711, []string{"--replSet", "holdfast"}).command()
	for _, pair := range [][]string{
		{"--port", "4711"}, {"--bind_ip", "127.0.0.1"}, {"--dbpath", filepath.Join(dir, "data")}, {"--replSet", "holdfast"},
		{"--setParameter", "enableTestCommands=1"}, {"--setParameter", "ttlMonitorSleepSecs=1"},
	} {
		found := false
		for i := range cmd.Args[:len(cmd.Args)-1] {
			found = found || slices.Equal(cmd.Args[i:i+2], pair)
		}
		if !found {
			t.Errorf("no %v in %v", pair, cmd.Args)
		}
	}
	if HasMongod() {
		s := Mongod(t)
		responds(t, s.Addr, mongodReady)
	} else if _, err := exec.LookPath("mongod"); err == nil {
		t.Error("a mongod is installed, but was not found")
	}
}
