CREATE TABLE IF NOT EXISTS {sessions} (
	id bytea PRIMARY KEY,
	expires bigint NOT NULL,
	ttl bigint NOT NULL,
	calls bigint NOT NULL
) WITH (fillfactor = 50)
