package holdfastprom_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/memstore"
)

func Example() {
	metrics := holdfastprom.New(&holdfastprom.Options{
		// The label of a name such as invoice/42 is the part before the slash: there are few, and they are known.
		Label: func(name string) string {
			kind, _, _ := strings.Cut(name, "/")
			return kind
		},
	})
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(metrics)
	locks, err := holdfast.New(memstore.New(), &holdfast.Options{Observer: metrics.Observe})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	for _, name := range []string{"invoice/42", "invoice/43", "nightly"} {
		if _, err := locks.Mutex(name).Lock(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
	}
	families, err := registry.Gather() // as promhttp.HandlerFor(registry, …) does
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		if f.GetName() == "holdfast_holds" {
			for _, m := range f.GetMetric() {
				fmt.Println(m.GetLabel()[0].GetValue(), m.GetGauge().GetValue())
			}
		}
	}
	// Output:
	// invoice 2
	// nightly 1
}
