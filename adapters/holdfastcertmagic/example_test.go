package holdfastcertmagic_test

import (
	"context"
	"fmt"
	"os"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastcertmagic"
	"github.com/holdfast-go/holdfast/memstore"
)

func ExampleNewStorage() {
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: redisstore.New(client, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	storage := holdfastcertmagic.NewStorage(&certmagic.FileStorage{Path: dir}, locks) // for a fleet: a storage that all share
	certmagic.Default.Storage = storage

	// This is what certmagic does when it obtains a certificate.
	ctx := context.Background()
	if err := storage.Lock(ctx, "issue_cert_example.com"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the lease is valid:", storage.Lease("issue_cert_example.com").Valid())
	if err := storage.Unlock(ctx, "issue_cert_example.com"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the lease is valid: true
}
