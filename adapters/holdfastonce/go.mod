module github.com/holdfast-go/holdfast/adapters/holdfastonce

go 1.26.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	go.uber.org/goleak v1.3.0
)

require golang.org/x/sys v0.1.0 // indirect
