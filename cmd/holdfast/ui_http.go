//go:build !holdfast_lean

package main

import (
	"context"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

//go:embed ui
var uiFiles embed.FS

// uiPolicy allows the page what this program serves, and nothing else: no inline script or style,
// no other host, no frame, no form that is sent anywhere, no HTML made from text.
const uiPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// handler returns the handler of the page's server. The files of the page have no secret. The
// state of the store, and breaking, need the token in a header, which a page of another site
// cannot send.
func (u *uiPage) handler() http.Handler {
	files, err := fs.Sub(uiFiles, "ui")
	if err != nil {
		panic(err) // it is embedded in the program
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /state", u.withToken(func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, u.state()) }))
	mux.HandleFunc("POST /break", u.withToken(u.doBreak))
	sameSite := http.NewCrossOriginProtection().Handler(mux) //mutant:cmd-ui-refuses-other-sites
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      uiPolicy,
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-store",
		} {
			w.Header().Set(name, value)
		}
		if !namesLoopback(r.Host) { //mutant:cmd-ui-refuses-other-hosts
			http.Error(w, "holdfast ui is asked for as 127.0.0.1 or localhost only", http.StatusMisdirectedRequest)
			return
		}
		sameSite.ServeHTTP(w, r)
	})
}

// namesLoopback reports whether the Host of a request is this host. Another name may have been
// made to resolve here (DNS rebinding); the port may be that of a tunnel.
func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// withToken refuses requests without the token.
func (u *uiPage) withToken(do http.HandlerFunc) http.HandlerFunc {
	want := []byte("Bearer " + u.token)
	return func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 { //mutant:cmd-ui-needs-its-token
			refuse(w, http.StatusUnauthorized, "the token is missing or wrong: open the whole address that 'holdfast ui' has printed")
			return
		}
		do(w, r)
	}
}

// A breakRequest is what the page sends to break a hold.
type breakRequest struct {
	ID     string `json:"id"`
	Token  string `json:"token"`
	Reason string `json:"reason"`
	Answer string `json:"answer"` // to the question
}

// doBreak breaks a hold of the last reading. A newer hold has another id, and is never broken.
func (u *uiPage) doBreak(w http.ResponseWriter, r *http.Request) {
	var asked breakRequest
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<10))
	body.DisallowUnknownFields()
	switch err := body.Decode(&asked); {
	case !u.mayBreak: //mutant:cmd-ui-is-read-only
		refuse(w, http.StatusForbidden, "not broken: this page is read-only; 'holdfast ui --allow-break' may break holds")
		return
	case r.Header.Get("Content-Type") != "application/json" || err != nil:
		refuse(w, http.StatusBadRequest, "not broken: this is no request of the page")
		return
	case !saysYes(asked.Answer): //mutant:cmd-ui-break-needs-yes
		refuse(w, http.StatusBadRequest, "not broken: the answer was not yes")
		return
	}
	reason := plainText(asked.Reason)
	wrong := checkReason(reason)
	if wrong != nil { //mutant:cmd-ui-break-needs-a-reason
		refuse(w, http.StatusBadRequest, "not broken: "+wrong.Error())
		return
	}
	hold := u.find(asked.ID, asked.Token)
	if hold == nil {
		refuse(w, http.StatusConflict, "not broken: there is no such hold any more")
		return
	}
	err := u.store.breakHold(context.WithoutCancel(r.Context()), holdfast.Break{Name: hold.Name, ID: hold.ID, Token: hold.Token, Reason: reason})
	switch {
	case err == nil:
	case errors.Is(err, holdfast.ErrInvalid), errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrDenied):
		refuse(w, http.StatusConflict, "not broken: "+err.Error())
		return
	default: // the outcome is unknown
		refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	u.mu.Lock() // at once: the hold may be gone before the next read
	u.lost.add(hold, "broken", "this page: "+reason, time.Now())
	u.mu.Unlock()
	answer(w, http.StatusOK, said{Said: printable(hold.Name) + ": broken; the next waiter gets the lock when the hold has expired"})
}

// find returns the hold from the last reading; nil if it is not there, or cannot be broken.
func (u *uiPage) find(id, token string) *line {
	u.mu.Lock()
	defer u.mu.Unlock()
	lines := linesOf(u.last.states, u.last.at)
	for i := range lines {
		if l := &lines[i]; l.ID == id && strconv.FormatInt(l.Token, 10) == token && l.breakable() {
			return l
		}
	}
	return nil
}

// said is a text for the page.
type said struct {
	Said string `json:"said"`
}

func refuse(w http.ResponseWriter, code int, text string) { answer(w, code, said{plainText(text)}) }

func answer(w http.ResponseWriter, code int, what any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(what) // a client that has left needs no answer
}
