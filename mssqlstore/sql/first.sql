--@ head.sql
--@ name.sql
DECLARE @told int=0,@left bigint=0;
BEGIN TRY
INSERT INTO {locks} (name,form,rev,taken,idle,written,data,inbox)
SELECT @key,@form,@rev,0,@idle,@now/@tick*@tick,CONVERT(varbinary(max),@data,2),'00' WHERE NOT EXISTS (SELECT 1 FROM {locks} WHERE name=@key);
IF @@ROWCOUNT=1 SET @told=2; --mutant:mssql-insert-tells
END TRY
BEGIN CATCH
-- Another process has created the row since it was found missing.
IF ERROR_NUMBER() NOT IN (2627,2601) --mutant:mssql-duplicate
BEGIN; THROW; END;
END CATCH;
--@ join.sql
SELECT @told,@left;
