package k8sstore

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/holdfast-go/holdfast/store"
)

// A failure is an answer that is no success: a Status of Kubernetes.
type failure struct {
	code    int
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Details struct {
		Kind   string           `json:"kind"`
		Causes []map[string]any `json:"causes"` // which fields are invalid
	} `json:"details"`
}

// Error cuts the message, which may have the whole object in it.
func (f *failure) Error() string { return store.OneLine(f.Message, 300) }

// refused reports whether a write was not done because its object is not as it was, or is there, or
// is missing. The API server answers 422 both for a test of a patch that fails and for an invalid
// object; only the latter has causes.
func refused(err error) bool {
	f, is := err.(*failure)
	return is && (f.code == http.StatusConflict || f.code == http.StatusUnprocessableEntity && len(f.Details.Causes) == 0 || missing(err))
}

// missing reports whether there is no such Lease. A missing namespace is another error.
func missing(err error) bool {
	f, is := err.(*failure)
	return is && f.code == http.StatusNotFound && f.Details.Kind != "namespaces" && f.Details.Kind != ""
}

// failed turns an error of the server into one for users, and marks some as definite.
func (s *server) failed(err error) error {
	if err == nil || store.Definite(err) {
		return err
	}
	tell := func(kind error, advice string) error {
		return fmt.Errorf("%w: %s: %w: %s", kind, s.address, err, advice)
	}
	switch {
	case anyOf(err, http.StatusUnauthorized, http.StatusForbidden):
		return tell(store.ErrDenied, "locks need get, list, create, patch and delete on leases of coordination.k8s.io in the namespace "+s.namespace)
	case anyOf(err, http.StatusNotFound):
		return tell(store.ErrUnsupported, "create the namespace, or name another")
	case anyOf(err, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge):
		return tell(store.ErrUnavailable, "too many waiters for this name: the annotations of an object have at most 256 KiB")
	}
	return err
}

// brief returns an error of Go's client without the URL: it says nothing new.
func brief(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
