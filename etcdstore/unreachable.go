package etcdstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/store"
)

// etcd's client makes each request wait for a connection, and does not report why there is none.
// gRPC does: its state is TransientFailure once every member was tried without success, until one
// is connected.

// unreachableFor is how long an ask waits for a connection if no member can be reached: a
// connection may be made meanwhile. Several asks fit in the second within which the caller gets the
// first error.
const unreachableFor = 50 * time.Millisecond

// unreachable is the reason why an ask was ended.
type unreachable struct{ error }

// untilUnreachable returns a context that ends early if no member can be reached. end ends the
// context, and returns the result of the operation: err, or why no member could be reached if that
// has ended the context and err is not definite.
func untilUnreachable(parent context.Context, client *clientv3.Client) (ctx context.Context, end func(err error) error) {
	ctx, cancel := context.WithCancelCause(parent)
	var check func()
	check = func() {
		if ctx.Err() != nil {
			return
		}
		if why := whyUnreachable(ctx, client); why != nil { //mutant:etcd-unreachable
			cancel(unreachable{why})
			return
		}
		time.AfterFunc(unreachableFor, check)
	}
	first := time.AfterFunc(unreachableFor, check)
	return ctx, func(err error) error {
		first.Stop()
		if why := (unreachable{}); err != nil && !store.Definite(err) && errors.As(context.Cause(ctx), &why) {
			err = why.error
		}
		cancel(nil)
		return err
	}
}

// whyUnreachable returns why no member can be reached, or nil if one can, or if that is not known
// yet.
func whyUnreachable(ctx context.Context, client *clientv3.Client) error {
	conn := client.ActiveConnection()
	if conn.GetState() != connectivity.TransientFailure {
		return nil
	}
	// A request that does not wait fails with the newest error.
	_, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(false))
	if status.Code(err) != codes.Unavailable {
		return nil
	}
	return err
}

// authenticates is the method of a login. Some versions of the messages that the driver accepts
// have no name for it.
const authenticates = "/etcdserverpb.Auth/Authenticate"

// loginSoon makes a login fail at once, instead of waiting, if no member can be reached.
func loginSoon(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == authenticates {
		opts = append(opts, grpc.WaitForReady(false)) //mutant:etcd-login-soon
	}
	return invoker(ctx, method, req, reply, cc, opts...)
}

// A dialError is the reason why a connection could not be made.
type dialError struct {
	text  string
	cause error
}

func (e *dialError) Error() string { return e.text }
func (e *dialError) Unwrap() error { return e.cause }

// dialCauses are the causes that callers ask for. The last is the refusal of Windows.
var dialCauses = map[string]error{
	syscall.ECONNREFUSED.Error(): syscall.ECONNREFUSED,
	syscall.Errno(10061).Error(): syscall.Errno(10061),
}

// dialed returns a dialError for gRPC's error of a failed connection attempt, of which gRPC keeps
// only the text. It returns any other error unchanged.
func dialed(err error) error {
	_, text, found := strings.Cut(status.Convert(err).Message(), "Error while dialing: ")
	if !found {
		return err
	}
	text = strings.TrimSuffix(text, `"`)
	if of, is := strings.CutSuffix(text, ": no such host"); is { // dial tcp: lookup NAME on SERVER
		_, name, _ := strings.Cut(of, "lookup ")
		name, _, _ = strings.Cut(name, " on ")
		return &dialError{text, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}} //mutant:etcd-host-that-is-not-there
	}
	for end, cause := range dialCauses {
		if strings.HasSuffix(text, end) {
			return &dialError{text, cause} //mutant:etcd-dial-cause
		}
	}
	return err
}
