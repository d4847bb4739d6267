--@ head.sql
--@ name.sql
SELECT TOP (@page) @now,name,form,rev,taken,data,inbox FROM {locks} WHERE idle=0 AND name>@key ORDER BY name;
