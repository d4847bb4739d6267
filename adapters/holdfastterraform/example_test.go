package holdfastterraform_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastterraform"
	"github.com/holdfast-go/holdfast/memstore"
)

func Example() {
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: redisstore.New(client, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	dir, err := os.MkdirTemp("", "states-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	mux := http.NewServeMux()
	mux.Handle("/states/", http.StripPrefix("/states/", holdfastterraform.New(locks, holdfastterraform.Dir(dir))))

	ask := func(method, path, body string) { // as the client does
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
		fmt.Println(strings.TrimSpace(fmt.Sprint(method, " ", answer.Code, " ", answer.Body)))
	}
	ask("LOCK", "/states/network", `{"ID":"1","Who":"alice"}`)
	ask("LOCK", "/states/network", `{"ID":"2","Who":"bob"}`)
	ask("POST", "/states/network?ID=1", `{"serial":1}`)
	ask("UNLOCK", "/states/network", `{"ID":"1"}`)
	ask("GET", "/states/network", "")
	// Output:
	// LOCK 200
	// LOCK 423 {"ID":"1","Who":"alice"}
	// POST 200
	// UNLOCK 200
	// GET 200 {"serial":1}
}
