-- Which server this is: replicas of one group have names of their own, and a server that was started again has another process. All of it is in
-- memory: nothing is waited for. It is not 0.
DECLARE @server bigint=4294967296+CHECKSUM(@@SERVERNAME,CAST(SERVERPROPERTY('ProcessID') AS int));
