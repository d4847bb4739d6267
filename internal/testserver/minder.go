package testserver

import (
	"io"
	"os/exec"
	"strconv"
)

// A minder is a process that lets the frozen children of a server go on when
// the test binary ends before it has done that, as by a timeout. The server dies
// with the test binary and its children with the server, but not one that is
// frozen: it would stay for ever.
type minder struct {
	cmd   *exec.Cmd
	input io.WriteCloser // its end without a line is our end
}

// mind has a minder look after the children of the server, if it has any.
func (s *Server) mind() error {
	s.minder.dismiss()
	args := []string{"-c", `trap "" HUP INT TERM; read line || kill -CONT "$@"`, "sh"}
	pids := children(s.PID)
	for _, pid := range pids {
		args = append(args, strconv.Itoa(pid))
	}
	if len(pids) == 0 {
		return nil
	}
	m := &minder{cmd: exec.Command("sh", args...)}
	var err error
	if m.input, err = m.cmd.StdinPipe(); err == nil {
		err = m.cmd.Start()
	}
	if err == nil {
		s.minder = m
	}
	return err
}

// dismiss ends the minder, if there is one, and waits for its end.
func (m *minder) dismiss() {
	if m == nil || m.input == nil {
		return
	}
	io.WriteString(m.input, "\n")
	m.input.Close()
	m.cmd.Wait()
	m.input = nil
}
