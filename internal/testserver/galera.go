package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Galera starts a cluster of n MariaDB servers for this test, all of which accept writes, and returns when each
// serves clients.
func Galera(t testing.TB, n int) (all []*Server) {
	t.Helper()
	provider := ""
	for _, at := range []string{"/usr/lib/galera", "/usr/lib64/galera-4", "/usr/lib64/galera"} {
		if file := filepath.Join(at, "libgalera_smm.so"); exists(file) {
			provider = file
		}
	}
	if provider == "" {
		t.Fatal("Galera is needed by this test and is not installed: run \"make servers\" (there is no libgalera_smm.so)")
	}
	copied := ""
	var members []string
	for i := range n {
		var ports [2]int
		for j := range ports {
			var err error
			if ports[j], err = freePort(t); err != nil {
				t.Fatal(err)
			}
		}
		args := []string{"--wsrep-on=ON", "--wsrep-provider=" + provider, "--wsrep-cluster-address=gcomm://" + strings.Join(members, ","), "--binlog-format=ROW",
			"--innodb-autoinc-lock-mode=2", "--wsrep-node-address=127.0.0.1",
			fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:%d;ist.recv_addr=127.0.0.1:%d;gcache.size=8M", ports[0], ports[1])}
		if i == 0 {
			args = append(args, "--wsrep-new-cluster")
		}
		s, err := mariaDBIn(t, t.TempDir(), args, func(data string, user *account) error {
			if i == 0 {
				return nil
			}
			// Start from the first server's data as of its first stop: then it only has to send what was written
			// since.
			if err := os.RemoveAll(data); err != nil {
				return err
			}
			return user.run("cp", "-Rp", copied, data)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		if i == 0 {
			s.Stop()
			copied = filepath.Join(s.dir, "copied")
			if err := s.user.run("cp", "-Rp", filepath.Join(s.dir, "data"), copied); err != nil {
				t.Fatal(err)
			}
			s.Restart()
		}
		all, members = append(all, s), append(members, fmt.Sprintf("127.0.0.1:%d", ports[0]))
	}
	return all
}
