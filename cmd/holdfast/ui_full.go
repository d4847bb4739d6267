//go:build !holdfast_lean

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
)

// ui serves the page until a signal ends it, or returns an error if the store can never be read.
func (p *program) ui(f uiFlags) error {
	ends := ending(false, nil, nil)
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(f.port)))
	l, err := net.Listen("tcp", at)
	if err != nil {
		return &message{fmt.Sprintf("ui: %s cannot be used: %v; leave --port out to have any that is free", at, err), holdfast.ErrInvalid}
	}
	v := &viewer{p: p}
	page := &uiPage{store: v, token: rand.Text(), mayBreak: f.allowBreak, began: time.Now()}
	server := &http.Server{
		Handler:           page.handler(),
		ErrorLog:          log.New(io.Discard, "", 0), // clients that leave are not worth a message
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second, // a break may take lookTime
		MaxHeaderBytes:    16 << 10,
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		cancel(fmt.Errorf("ui: %w", server.Serve(l)))
	}()
	defer func() {
		server.Close()
		<-served
	}()
	// A store that can never be read gets no page. One that does not answer gets one.
	var first reading
	if v.in, first.err = p.inspector(choose(p.store)); first.hopeless() { //mutant:cmd-ui-needs-a-list
		return first.err
	}
	if _, err := fmt.Printf("http://%s/#token=%s\n", l.Addr(), page.token); err != nil {
		return err
	}
	tell("open this address in a browser on this host; Ctrl-C ends it")
	return v.follow(ctx, time.Duration(f.every), ends, page.took)
}
