module github.com/holdfast-go/holdfast/redisstore

go 1.26.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/redis/go-redis/v9 v9.17.3
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	golang.org/x/sys v0.1.0 // indirect
)
