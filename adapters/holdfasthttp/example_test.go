package holdfasthttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfasthttp"
	"github.com/holdfast-go/holdfast/memstore"
)

func Example() {
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: redisstore.New(client, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	update := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease := holdfast.LeaseFrom(r.Context()) // pass its Token to what is written to
		fmt.Fprintln(w, "updated under", lease.Name())
	})
	locked := holdfasthttp.Locked(locks, func(r *http.Request) string {
		return "order/" + r.PathValue("id")
	}, &holdfasthttp.Options{Wait: time.Second})
	mux := http.NewServeMux()
	mux.Handle("PUT /orders/{id}", locked(update))

	put := func() {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest("PUT", "/orders/7", nil))
		fmt.Print(answer.Code, " ", answer.Body)
	}
	put()
	err = locks.Mutex("order/7").Do(context.Background(), func(context.Context) error {
		put() // while another holder has it
		return nil
	})
	fmt.Println(err)
	// Output:
	// 200 updated under order/7
	// 423 Locked
	// <nil>
}
