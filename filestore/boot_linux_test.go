package filestore

import (
	"testing"
)

// Each container of a host can have its own boot id.
func TestAnotherBootIDDoesNotFreeWhatALivingProcessHolds(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	one := startAs(t, contained(t, helperCommand(t, "hold", dir, "name"), "one"))
	one.says("holding")
	if free(t, s, "name") {
		t.Fatal("two holders: one in a container, one outside")
	}
	two := startAs(t, contained(t, helperCommand(t, "hold", dir, "name"), "two"))
	two.says("waiting")
	if free(t, s, "name") {
		t.Fatal("two holders: a container that waits wrote the queue")
	}
	if h := held(t, s, "name"); h != 1 {
		t.Fatalf("got %d holders in the list, want 1", h)
	}
	one.end()
	two.says("holding")
	if free(t, s, "name") {
		t.Fatal("two holders: another container was granted")
	}
	two.kill()
	if !free(t, s, "name") {
		t.Fatal("the name is not free, although the holder in the container was killed")
	}
}

// held is the number of listed holders of the name.
func held(t *testing.T, s *Store, name string) (n int) {
	t.Helper()
	for st, err := range s.List(t.Context(), name) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range st.Entries {
			if e.Granted {
				n++
			}
		}
	}
	return n
}
