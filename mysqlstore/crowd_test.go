package mysqlstore

const workerEnv = "X"

func worker(string) error { return nil }
