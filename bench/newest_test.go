package main

// Nothing here uses it: holdfastprom is tested with the version that bench asks for, the newest.
import _ "github.com/prometheus/client_golang/prometheus"
