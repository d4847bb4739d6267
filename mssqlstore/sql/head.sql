-- Before each statement, in its own request. Whatever the pool, or the request before, has set is set for this request:
-- SET inside sp_executesql ends with it, so the connection stays as it was.
IF @@TRANCOUNT<>0 --mutant:mssql-commits
BEGIN; THROW 51000,N'holdfast: this connection has an open transaction',1; END;
SET IMPLICIT_TRANSACTIONS OFF;
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET ROWCOUNT 0;
SET TEXTSIZE 2147483647;
SET LOCK_TIMEOUT 3000;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED; --mutant:mssql-isolation
DECLARE @now bigint={now};
