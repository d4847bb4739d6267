package main

// Nothing here uses it: with this import holdfastprom is tested with the version that bench requires, the newest.
import _ "github.com/prometheus/client_golang/prometheus"
