package k8sstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store/record/object"
)

// A server is the object.Server of a namespace. Each key is a Lease. Package object uses it for all
// but the names.
type server struct {
	client    *http.Client
	leases    string // the URL of the namespace's Leases
	namespace string
	address   string // for messages
}

// domain is that of all labels and annotations.
const domain = "holdfast-go.github.io/"

const (
	labelKind = domain + "kind" // of each Lease of holdfast: the first letter of its key; n: a name
	textBody  = domain + "body" // annotation: the body of an object
)

// manager is the name under which the API server notes when this program wrote a Lease.
const manager = "holdfast"

// A lease is a Lease object, as far as it matters here.
type lease struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   meta            `json:"metadata"`
	Spec       json.RawMessage `json:"spec,omitempty"`
}

type meta struct {
	Name            string            `json:"name"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	ManagedFields   []managed         `json:"managedFields,omitempty"`
}

// A managed is a program that has written the object, and the time of its newest write.
type managed struct {
	Manager string    `json:"manager"`
	Time    time.Time `json:"time"`
}

// written returns when the programs that count have written the Lease, by the server's clock,
// truncated to the second; zero: unknown.
func (l *lease) written(counts func(manager string) bool) (newest time.Time) {
	for _, m := range l.Metadata.ManagedFields {
		if counts(m.Manager) && m.Time.After(newest) {
			newest = m.Time
		}
	}
	return newest
}

func own(by string) bool { return by == manager }

// others reports whether a part of the Lease is as another program has written it, or may be.
func (l *lease) others() bool {
	all := l.Metadata.ManagedFields
	return len(all) == 0 || slices.ContainsFunc(all, func(m managed) bool { return !own(m.Manager) })
}

// A step is an operation of a JSON patch (RFC 6902). The API server applies all steps of a patch at
// once, or none.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from,omitempty"`
	Value any    `json:"value"` // nil: null
}

func annotation(name string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(name, "/", "~1")
}

// request sends a request once, and returns the body of the answer and the server's time, or zero.
func (s *server) request(ctx context.Context, method, name string, query url.Values, kind string, body any) (raw []byte, now time.Time, err error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, now, err
		}
		sent = bytes.NewReader(text)
	}
	at := s.leases
	if name != "" {
		at += "/" + name
	}
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, at, sent)
	if err != nil {
		return nil, now, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", manager)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, now, brief(err)
	}
	defer answer.Body.Close()
	if raw, err = io.ReadAll(answer.Body); err != nil {
		return nil, now, err
	}
	now, _ = http.ParseTime(answer.Header.Get("Date"))
	if answer.StatusCode/100 == 2 {
		return raw, now, nil
	}
	f := &failure{code: answer.StatusCode}
	if json.Unmarshal(raw, f) != nil || f.Message == "" {
		f.Message = answer.Status
	}
	return nil, now, f
}

// write is a request that writes a Lease, and returns it if that is done.
func (s *server) write(ctx context.Context, method, name, kind string, body any) (l *lease, what object.Fate, now time.Time, err error) {
	raw, now, err := s.request(ctx, method, name, url.Values{"fieldManager": {manager}}, kind, body)
	switch {
	case refused(err):
		return nil, object.Refused, now, nil
	case err != nil:
		return nil, 0, now, s.failed(err)
	}
	l = new(lease)
	if err := json.Unmarshal(raw, l); err != nil {
		return nil, 0, now, fmt.Errorf("the answer is no Lease: %w", err)
	}
	return l, object.Done, now, nil
}

// create writes a Lease if there is none.
func (s *server) create(ctx context.Context, l *lease) (*lease, object.Fate, time.Time, error) {
	l.APIVersion, l.Kind = "coordination.k8s.io/v1", "Lease"
	return s.write(ctx, http.MethodPost, "", "application/json", l)
}

// patch changes a Lease if all of its tests hold.
func (s *server) patch(ctx context.Context, name string, steps []step) (*lease, object.Fate, time.Time, error) {
	return s.write(ctx, http.MethodPatch, name, "application/json-patch+json", steps)
}

// get reads a Lease as the newest answered write has left it. A missing one is nil.
func (s *server) get(ctx context.Context, name string) (*lease, time.Time, error) {
	raw, now, err := s.request(ctx, http.MethodGet, name, nil, "", nil) // without a resourceVersion the server reads from etcd
	switch {
	case missing(err):
		return nil, now, nil
	case err != nil:
		return nil, now, s.failed(err)
	}
	l := new(lease)
	if err := json.Unmarshal(raw, l); err != nil {
		return nil, now, fmt.Errorf("the answer is no Lease: %w", err)
	}
	return l, now, nil
}

// delete deletes a Lease if its resourceVersion is version; "": in any case.
func (s *server) delete(ctx context.Context, name, version string) error {
	body := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions"}
	if version != "" {
		body["preconditions"] = map[string]string{"resourceVersion": version} //mutant:k8s-delete-depends
	}
	if _, _, err := s.request(ctx, http.MethodDelete, name, nil, "application/json", body); err != nil && !refused(err) {
		return s.failed(err)
	}
	return nil
}

// The keys of package object are a letter, a slash, and more letters or digits.

func nameOf(key string) string {
	kind, rest, _ := strings.Cut(key, "/")
	return "holdfast-" + kind + "-" + strings.ToLower(rest)
}

func keyOf(name string) string {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(name, "holdfast-"), "-")
	return kind + "/" + rest
}

// objectOf returns a Lease as an object.
func objectOf(l *lease, key string, now time.Time) object.Object {
	o := object.Object{Key: key, Now: now, Server: "Kubernetes"}
	if l != nil {
		o.Body, o.Version, o.Written = []byte(l.Metadata.Annotations[textBody]), l.Metadata.ResourceVersion, l.written(own)
	}
	return o
}

// Get implements [object.Server].
func (s *server) Get(ctx context.Context, key string) (object.Object, error) {
	l, now, err := s.get(ctx, nameOf(key))
	return objectOf(l, key, now), err
}

// Put implements [object.Server].
func (s *server) Put(ctx context.Context, key string, body []byte, version string) (object.Object, object.Fate, error) {
	var l *lease
	var what object.Fate
	var now time.Time
	var err error
	if version == "" {
		l, what, now, err = s.create(ctx, &lease{Metadata: meta{
			Name: nameOf(key), Labels: map[string]string{labelKind: key[:1]}, Annotations: map[string]string{textBody: string(body)}}})
	} else {
		l, what, now, err = s.patch(ctx, nameOf(key), []step{
			{Op: "test", Path: "/metadata/resourceVersion", Value: version}, //mutant:k8s-write-depends
			{Op: "add", Path: annotation(textBody), Value: string(body)},
		})
	}
	return objectOf(l, key, now), what, err
}

// Delete implements [object.Server].
func (s *server) Delete(ctx context.Context, key, version string) error {
	return s.delete(ctx, nameOf(key), version)
}

// pages lists the Leases of holdfast that a selector of labels selects, in the order of their names.
func (s *server) pages(ctx context.Context, selector string, each func(all []lease, now time.Time) bool) error {
	query := url.Values{"labelSelector": {selector}, "limit": {"500"}}
	for {
		raw, now, err := s.request(ctx, http.MethodGet, "", query, "", nil)
		if err != nil {
			return s.failed(err)
		}
		var page struct {
			Metadata struct{ Continue string }
			Items    []lease
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("the answer is no list of Leases: %w", err)
		}
		if !each(page.Items, now) || page.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// anyOf reports whether a failure has one of these codes.
func anyOf(err error, codes ...int) bool {
	f, is := err.(*failure)
	return is && slices.Contains(codes, f.code)
}
