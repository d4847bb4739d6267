//go:build holdfast_lean

package all

// lean says how to build a program with the drivers that a tag leaves out.
const lean = "without -tags holdfast_lean,holdfast_files"

func init() {
	leaveOut(lean, map[string][]string{"etcd": {"etcd"}, "NATS": {"nats", "nats+tls"}, "MongoDB": {"mongodb", "mongodb+srv"}, "SQL Server": {"sqlserver"}})
}
