package main

import (
	"fmt"
	"time"
)

// A measure is the figures of one contender in one round, by column.
type measure map[string]float64

// A better says which of two figures of a column is better.
type better string

const (
	neither better = ""
	more    better = "more"
	less    better = "less"
)

// A column describes a column of a table: what is measured, and how it is printed.
type column struct {
	name   string
	unit   string // empty: a plain number
	better better
	print  func(float64) string
	ratio  bool // also print the ratio to the reference
	sum    bool // the total of all rounds, instead of their median
}

// rate is a number of events per second. The ratios of most tables are of rates.
func rate(name string) column {
	return column{name: name, unit: "1/s", better: more, print: count, ratio: true}
}

// elapsed is a time in nanoseconds.
func elapsed(name string) column {
	return column{name: name, unit: "ns", better: less, print: duration}
}

// fraction is a proportion, such as the least served client's share of the most served one's.
func fraction(name string) column { return column{name: name, better: more, print: decimals} }

// cost is an amount that something needs.
func cost(name, unit string) column {
	return column{name: name, unit: unit, better: less, print: decimals}
}

// beside returns the column with its ratio to the reference.
func (c column) beside() column {
	c.ratio = true
	return c
}

// stalled counts the waiters that were never woken.
var stalled = column{name: "stalled", better: less, print: count, sum: true}

// perLock is the cost of each lock to the server.
var perLock = cost("requests/lock", "requests")

// Functions that print figures.

func count(v float64) string { return fmt.Sprintf("%.0f", v) }

func decimals(v float64) string { return fmt.Sprintf("%.3f", v) }

func tenths(v float64) string { return fmt.Sprintf("%.1f", v) }

func seconds(ns float64) string { return fmt.Sprintf("%.2f s", ns/1e9) }

// duration prints nanoseconds with three significant digits.
func duration(ns float64) string {
	d := time.Duration(ns)
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", ns/1e3)
	default:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	}
}
