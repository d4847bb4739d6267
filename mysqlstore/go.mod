module github.com/holdfast-go/holdfast/mysqlstore

go 1.26.0

require (
	github.com/go-sql-driver/mysql v1.9.0
	github.com/holdfast-go/holdfast v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	filippo.io/edwards25519 v1.1.0 // indirect
	golang.org/x/sys v0.1.0 // indirect
)
