package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/natsstore"
)

// bareCreate is what a lock of NATS costs at least, and the reference: the key is
// created, which is refused if it is there, and deleted.
const bareCreate = "create + delete"

var onNATS = []contender{
	{name: "holdfast", open: openOnNATS},
	{name: bareCreate, open: openBareCreate},
}

type oursOnNATS struct {
	ours
	nc *nats.Conn
}

func openOnNATS(addr string) (locks, error) {
	nc, err := nats.Connect(addr)
	if err != nil {
		return nil, err
	}
	s, err := natsstore.New(nc, nil)
	if err != nil {
		return nil, err
	}
	l, err := holdfast.New(s, &holdfast.Options{TTL: ttl})
	return oursOnNATS{ours{l}, nc}, err
}

func (o oursOnNATS) close() error {
	defer o.nc.Close()
	return o.ours.close()
}

// lockBareCreate waits by trying again, so it is for names that nobody else wants.
type lockBareCreate struct {
	nc *nats.Conn
	kv jetstream.KeyValue
}

func openBareCreate(addr string) (locks, error) {
	nc, err := nats.Connect(addr)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	kv, err := js.CreateOrUpdateKeyValue(context.Background(), jetstream.KeyValueConfig{Bucket: "bare"})
	return lockBareCreate{nc, kv}, err
}

func (l lockBareCreate) lock(ctx context.Context, name string) (func() error, error) {
	key := strings.NewReplacer("/", ".", " ", "_").Replace(name)
	for {
		_, err := l.kv.Create(ctx, key, nil)
		if err == nil {
			return func() error { return l.kv.Delete(context.Background(), key) }, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return nil, err
		}
	}
}

func (l lockBareCreate) close() error {
	l.nc.Close()
	return nil
}

// natsProgram is nats-server, or the one that scripts/servers has built.
func natsProgram() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	if built := filepath.Join(cache, "holdfast-test", "bin", "nats-server"); exec.Command(built, "-v").Run() == nil {
		return built, nil
	}
	program, err := exec.LookPath("nats-server")
	if err != nil {
		err = fmt.Errorf("nats-server is needed: run \"make servers\": %w", err)
	}
	return program, err
}

func startNATS(ctx context.Context) (addr, version string, stop func(), err error) {
	program, err := natsProgram()
	if err != nil {
		return "", "", nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return "", "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", nil, err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	cmd := exec.Command(program, "-a", "127.0.0.1", "-p", port, "-js", "-sd", dir)
	if err := cmd.Start(); err != nil {
		return "", "", nil, err
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(dir)
	}
	addr = "nats://127.0.0.1:" + port
	up, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if nc, err := nats.Connect(addr); err == nil {
			js, err := jetstream.New(nc)
			if err == nil {
				_, err = js.AccountInfo(up)
			}
			version = nc.ConnectedServerVersion()
			nc.Close()
			if err == nil {
				return addr, version, stop, nil
			}
		}
		if up.Err() != nil {
			stop()
			return "", "", nil, fmt.Errorf("NATS on %s does not answer", addr)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func natsSuite(ctx context.Context, s setup) error {
	addr, version, stopServer, err := startNATS(ctx)
	if err != nil {
		return err
	}
	defer stopServer()
	fmt.Fprintf(s.out, "\nNATS %s on the loopback, one server, synced to disk every two minutes\n", version)
	for _, goroutines := range []int{1, 64} {
		runners, stop, err := pairRunners(s, onNATS, addr, goroutines)
		if err != nil {
			return err
		}
		title := fmt.Sprintf("NATS: uncontended lock and unlock, %d goroutines, a name each", goroutines)
		err = rounds(ctx, s, title, bareCreate, pairColumns, runners)
		stop()
		if err != nil {
			return err
		}
	}
	runners, stop, err := handoffRunners(ctx, s, "nats", onNATS, addr)
	if err != nil {
		return err
	}
	err = rounds(ctx, s, "NATS: hand-off between two processes, from the call of unlock to the return of lock", bareCreate, handoffColumns, runners)
	stop()
	return err
}
