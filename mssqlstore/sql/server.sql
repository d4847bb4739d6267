-- Identifies the server: replicas of a group have different names, and a restarted server has another process. All of it is in
-- memory, so nothing is waited for. It is never 0.
DECLARE @server bigint=4294967296+CHECKSUM(@@SERVERNAME,CAST(SERVERPROPERTY('ProcessID') AS int));
