package prove

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest/contain"
)

// tryContainer returns why no process can be started in a container here; nil: one can.
func (r *run) tryContainer() error {
	line, err := json.Marshal(command{Try: "a boot id"})
	if err != nil {
		return err
	}
	cmd := r.o.Command()
	if cmd.SysProcAttr = childAttr(); cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	contain.Attr(cmd.SysProcAttr)
	cmd.Stdin = bytes.NewReader(append(line, '\n'))
	said := &tail{}
	cmd.Stderr = said
	if err := r.start(cmd); err != nil {
		return err
	}
	defer time.AfterFunc(startBy, func() { cmd.Process.Kill() }).Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// containers removes the container fault where no container can be made. If that
// fault was asked for by name, it returns an error that matches
// store.ErrUnsupported instead.
func (r *run) containers(named bool) error {
	if !slices.Contains(r.o.Faults, contained) {
		return nil
	}
	err := r.tryContainer()
	if err == nil {
		return nil
	}
	if named {
		return fmt.Errorf("%w: prove: no container can be made here: %w", store.ErrUnsupported, err)
	}
	r.uncontained = err
	r.o.Faults = slices.DeleteFunc(slices.Clone(r.o.Faults), func(f Fault) bool { return f == contained })
	return nil
}

// contain puts every other life of the process into a container when it begins, and
// returns its boot id there. Half of all lives are in containers, each with its own
// boot id; the others have the host's.
func (p *process) contain(cmd *exec.Cmd) (boot string) {
	if !slices.Contains(p.r.o.Faults, contained) || (p.n+p.life)%2 == 0 {
		return ""
	}
	contain.Attr(cmd.SysProcAttr)
	p.r.add(Event{Do: struck, Proc: p.n, Life: p.life, Fault: contained})
	p.r.add(Event{Do: mended, Proc: p.n, Life: p.life, Fault: contained, Hits: 1})
	return fmt.Sprintf("prove-%d-%d-%d", p.r.o.Seed, p.n, p.life)
}
