-- Precedes each statement, in the same request, and sets what the pool or an earlier request may have set otherwise.
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
