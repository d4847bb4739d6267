package main

// Nothing here uses them: what users get is tested with the versions that bench asks for, the newest.
import (
	_ "github.com/caddyserver/certmagic"
	_ "github.com/go-co-op/gocron/v2"
	_ "github.com/golang-migrate/migrate/v4/database"
	_ "github.com/pressly/goose/v3"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/robfig/cron/v3"
	_ "github.com/tus/tusd/v2/pkg/handler"
	_ "go.opentelemetry.io/otel"
	_ "go.opentelemetry.io/otel/sdk/metric"
	_ "k8s.io/client-go/tools/leaderelection"
)
