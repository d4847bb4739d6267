--@ head.sql
--@ name.sql
DELETE FROM {locks} WHERE name=@key
AND rev=@rev; --mutant:mssql-sweep-unwritten
