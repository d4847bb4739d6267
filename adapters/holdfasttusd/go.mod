module github.com/holdfast-go/holdfast/adapters/holdfasttusd

go 1.26.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/tus/tusd/v2 v2.6.0
	go.uber.org/goleak v1.3.0
)

require (
	golang.org/x/exp v0.0.0-20230626212559-97b1e661b5df // indirect
	golang.org/x/sys v0.26.0 // indirect
)
