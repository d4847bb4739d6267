--@ head.sql
SELECT @now,CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)),CAST(SERVERPROPERTY('EngineEdition') AS int),USER_NAME(),
CAST(DATABASEPROPERTYEX(DB_NAME(),'Updateability') AS nvarchar(128)),CAST(delayed_durability AS int),CAST(is_read_committed_snapshot_on AS int)
FROM sys.databases WHERE name=DB_NAME();
