module github.com/holdfast-go/holdfast/adapters/holdfastgocron

go 1.26.0

require (
	github.com/go-co-op/gocron/v2 v2.16.0
	github.com/holdfast-go/holdfast v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	golang.org/x/sys v0.1.0 // indirect
)
