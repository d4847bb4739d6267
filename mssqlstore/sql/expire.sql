--@ head.sql
UPDATE {sessions} SET expires=0 WHERE id=@id AND expires<>0
AND expires<=@now; --mutant:mssql-end-is-final
SELECT CAST(@@ROWCOUNT AS bigint);
