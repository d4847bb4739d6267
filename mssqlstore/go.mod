module github.com/holdfast-go/holdfast/mssqlstore

go 1.26.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/microsoft/go-mssqldb v1.10.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/golang-sql/civil v0.0.0-20220223132316-b832511892a9 // indirect
	github.com/golang-sql/sqlexp v0.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/shopspring/decimal v1.4.0 // indirect
	golang.org/x/crypto v0.50.0 // indirect
	golang.org/x/sys v0.43.0 // indirect
	golang.org/x/text v0.36.0 // indirect
)
