// A module of a user's: it is of no workspace, and is built with what a module proxy has of holdfast.
module example.org/setnx

go 1.26.0
