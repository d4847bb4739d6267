--@ head.sql
INSERT INTO {sessions} (id,expires,ttl,calls) VALUES (@id,@now+@ttl,@ttl,0);
--@ server.sql
SELECT @server;
