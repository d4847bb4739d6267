package store

import "context"

// claimsKey is the key of the claims that a context serves: a func() []context.Context.
type claimsKey struct{}

// Claims returns contexts with the values of the claims that a call to a server
// serves, if it serves several: the renewal of a thousand leases, or a batch that a
// store sends for callers that wait for the same server. It is for code that traces
// the driver: such a call is in no claim's trace, but its span can be linked to
// those of the claims. With OpenTelemetry a span processor does that:
//
//	func (p linking) OnStart(parent context.Context, span trace.ReadWriteSpan) {
//		for _, claim := range store.Claims(parent) {
//			span.AddLink(oteltrace.LinkFromContext(claim))
//		}
//	}
//
// It returns nil for any other context. A call that serves one claim has the values
// of that claim's context itself.
func Claims(ctx context.Context) []context.Context {
	if claims, ok := ctx.Value(claimsKey{}).(func() []context.Context); ok {
		return claims()
	}
	return nil
}

// ForClaims returns a context for a call that serves several claims. It is ctx, but
// [Claims] of it returns what the function claims returns, which is called each time.
func ForClaims(ctx context.Context, claims func() []context.Context) context.Context {
	return context.WithValue(ctx, claimsKey{}, claims)
}

// Join returns a context for a request that a store sends for several callers at
// once. It ends with ctx. With one caller it has the values of that caller's
// context; with several, [Claims] returns the claims of all of them.
func Join(ctx context.Context, callers ...context.Context) context.Context {
	if len(callers) == 1 {
		return &alone{ctx, callers[0]}
	}
	return ForClaims(ctx, func() (all []context.Context) {
		for _, c := range callers {
			if some := Claims(c); some != nil {
				all = append(all, some...)
			} else {
				all = append(all, c) //mutant:joined-is-forgotten
			}
		}
		return all
	})
}

// alone is a context that also has the values of another.
type alone struct {
	context.Context
	caller context.Context
}

func (a *alone) Value(key any) any {
	if v := a.Context.Value(key); v != nil { // the end of a context is found through its values, and must be the store's //mutant:joined-ends-with-caller
		return v
	}
	return a.caller.Value(key)
}
