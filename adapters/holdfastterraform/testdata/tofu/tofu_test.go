// Package tofu tests holdfastterraform with the real OpenTofu.
package tofu

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastterraform"
	"github.com/holdfast-go/holdfast/memstore"
)

// A project is a directory with a configuration. The server has its state.
type project struct {
	t         *testing.T
	tofu, dir string
}

// run runs a command of OpenTofu, which must succeed or fail as given. It returns the output.
func (p project) run(succeeds bool, args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.tofu, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "TF_IN_AUTOMATION=1", "TF_CLI_ARGS=-no-color", "TF_CLI_CONFIG_FILE="+filepath.Join(p.dir, "none.tofurc"))
	out, err := cmd.CombinedOutput()
	if (err == nil) != succeeds {
		p.t.Fatalf("tofu %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// request sends a request of the protocol, as another client does.
func request(t *testing.T, method, url, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", method, answer.Status)
	}
}

func TestOpenTofuAppliesUnderTheLock(t *testing.T) {
	out, err := exec.Command("go", "tool", "-n", "tofu").Output()
	if err != nil {
		t.Fatal(err)
	}
	locks, err := holdfast.New(memstore.New(), &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	states := t.TempDir()
	server := httptest.NewServer(holdfastterraform.New(locks, holdfastterraform.Dir(states)))
	defer server.Close()
	url := server.URL + "/network"
	p := project{t, strings.TrimSpace(string(out)), t.TempDir()}
	configuration := fmt.Sprintf(`
terraform {
  backend "http" {
    address        = %[1]q
    lock_address   = %[1]q
    unlock_address = %[1]q
  }
}
resource "terraform_data" "example" {
  input = "made under the lock"
}
`, url)
	for name, text := range map[string]string{"main.tf": configuration, "none.tofurc": ""} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.run(true, "init", "-input=false")
	p.run(true, "apply", "-auto-approve", "-input=false")
	if state, err := os.ReadFile(filepath.Join(states, "network.tfstate")); err != nil || !strings.Contains(string(state), "made under the lock") {
		t.Errorf("got state %s (%v), want the output", state, err)
	}
	if holders, err := locks.Look(t.Context(), holdfastterraform.LockPrefix+"network"); err != nil || len(holders.Holders) > 0 {
		t.Errorf("after apply: got %v (%v), want no holders", holders, err)
	}

	// Another client has the lock.
	const id = "1f0c5c4e-0000-4000-8000-000000000001"
	request(t, "LOCK", url, `{"ID":"`+id+`","Operation":"OperationTypeApply","Who":"alice@web-3"}`)
	if says := p.run(false, "apply", "-auto-approve", "-input=false"); !strings.Contains(says, "Error acquiring the state lock") || !strings.Contains(says, "alice@web-3") {
		t.Errorf("tofu does not report the holder of the lock:\n%s", says)
	}
	p.run(true, "force-unlock", "-force", id)
	p.run(true, "destroy", "-auto-approve", "-input=false")
	if state := p.run(true, "state", "list"); strings.TrimSpace(state) != "" {
		t.Errorf("after destroy: got state %s, want none", state)
	}
}
