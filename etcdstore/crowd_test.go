package etcdstore

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// Many processes claim one name at once. What each costs the server does not grow with their number.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	addr, o := testserver.SharedEtcd(t), apart()
	counts := &recordtest.Counts{}
	count := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			counts.Add(kindOf(method, req, reply))
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := stream(ctx, desc, cc, method, opts...)
			return countedStream{s, counts}, err
		}),
	}
	recordtest.Crowd(t, recordtest.CrowdSize(100), counts, func(t *testing.T) store.Store {
		return storeOn(t, clientWith(t, clientv3.Config{Endpoints: []string{addr}, DialOptions: count}), o)
	})
}

// kindOf names a request.
func kindOf(method string, req, reply any) string {
	tx, ok := req.(*pb.TxnRequest)
	if !ok {
		return method[len("/etcdserverpb."):]
	}
	switch r, _ := reply.(*pb.TxnResponse); {
	case len(tx.Compare) == 0 && tx.Success[0].GetRequestRange() != nil && tx.Success[0].GetRequestRange().KeysOnly:
		return "left"
	case len(tx.Compare) == 0 && tx.Success[0].GetRequestRange() != nil:
		return "load"
	case len(tx.Compare) == 0:
		return "begin or letters"
	case len(tx.Compare) == 1:
		return "base"
	case r.GetSucceeded():
		return "swap done"
	case tx.Failure[0].GetRequestTxn() != nil:
		return "swap refused, joins"
	default:
		return "swap refused"
	}
}

type countedStream struct {
	grpc.ClientStream
	counts *recordtest.Counts
}

func (s countedStream) SendMsg(m any) error {
	switch m := m.(type) {
	case *pb.WatchRequest:
		if m.GetCreateRequest() != nil {
			s.counts.Add("watch")
		} else {
			s.counts.Add("unwatch")
		}
	default:
		s.counts.Add("keep-alive")
	}
	return s.ClientStream.SendMsg(m)
}
