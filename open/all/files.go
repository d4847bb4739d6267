//go:build holdfast_files

package all

// With the tag holdfast_lean too, only files and memory are left.
func init() {
	leaveOut(lean, map[string][]string{
		"Redis":      {"redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel", "redlock"},
		"PostgreSQL": {"postgres", "postgresql", "postgres+session", "postgresql+session"},
		"MySQL":      {"mysql", "mariadb"},
		"ZooKeeper":  {"zk"},
	})
}
