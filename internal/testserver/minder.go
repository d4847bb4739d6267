package testserver

import (
	"io"
	"os/exec"
	"strconv"
)

// A minder is a process that resumes a server's frozen children if the test binary ends without
// doing so, as after a timeout. The server dies with the test binary and its children die with
// the server, but a frozen child would stay forever.
type minder struct {
	cmd   *exec.Cmd
	input io.WriteCloser // if it is closed without a line, this process has ended
}

// mind starts a minder for the server's children, if it has any.
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

// dismiss ends the minder, if there is one, and waits until it has exited.
func (m *minder) dismiss() {
	if m == nil || m.input == nil {
		return
	}
	io.WriteString(m.input, "\n")
	m.input.Close()
	m.cmd.Wait()
	m.input = nil
}
