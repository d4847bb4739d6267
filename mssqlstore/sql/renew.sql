--@ head.sql
DECLARE @calls bigint=-1;
UPDATE {sessions} SET @calls=calls,
expires=CASE WHEN expires<@now+ttl THEN @now+ttl ELSE expires END --mutant:mssql-renewed-back
WHERE id=@id
AND expires>@now; --mutant:mssql-renewed-when-over
SELECT @calls;
