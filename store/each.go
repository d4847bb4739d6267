package store

import "sync"

// EachName calls f with the index of each hold, for stores without a batch
// operation: up to n calls at a time, and those of one name one after another,
// in their order. It returns when all calls have returned.
func EachName(holds []Hold, n int, f func(i int)) {
	if len(holds) == 1 {
		f(0)
		return
	}
	var names []string
	of := map[string][]int{}
	for i := range holds {
		name := holds[i].Name
		if of[name] == nil {
			names = append(names, name)
		}
		of[name] = append(of[name], i)
	}
	next := make(chan string)
	var all sync.WaitGroup
	for range min(n, len(names)) {
		all.Go(func() {
			for name := range next {
				for _, i := range of[name] {
					f(i)
				}
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	all.Wait()
}
