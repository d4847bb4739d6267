package mysqlstore

import "testing"

// A Galera cluster is no plain server, and that is no ok.
func TestAGaleraClusterIsWarnedOf(t *testing.T) {
	if all := checkGalera(0); len(all) != 0 {
		t.Errorf("a plain server: %+v", all)
	}
	if all := checkGalera(3); len(all) != 1 || !all[0].Warning {
		t.Errorf("three nodes: %+v", all)
	}
}
