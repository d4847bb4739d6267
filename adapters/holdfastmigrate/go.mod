module github.com/holdfast-go/holdfast/adapters/holdfastmigrate

go 1.26.0

require (
	github.com/golang-migrate/migrate/v4 v4.15.2
	github.com/holdfast-go/holdfast v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	go.uber.org/atomic v1.7.0 // indirect
	golang.org/x/sys v0.1.0 // indirect
)
