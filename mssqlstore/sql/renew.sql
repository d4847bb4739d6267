--@ head.sql
DECLARE @calls bigint=-1;
DECLARE @done TABLE (calls bigint);
UPDATE {sessions} SET
expires=CASE WHEN expires<@now+ttl THEN @now+ttl ELSE expires END --mutant:mssql-renewed-back
OUTPUT inserted.calls INTO @done
WHERE id=@id
AND expires>@now; --mutant:mssql-renewed-when-over
SELECT @calls=calls FROM @done;
--@ server.sql
SELECT @calls,@server;
