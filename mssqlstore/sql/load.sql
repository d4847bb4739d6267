--@ head.sql
--@ name.sql
-- Into variables first: what is answered has the row locked no more, however slowly it is taken.
DECLARE @have smallint,@rev bigint,@taken bigint,@data varbinary(max),@inbox varchar(max);
SELECT @have=form,@rev=rev,@taken=taken,@data=data,@inbox=inbox FROM {locks} WHERE name=@key;
SELECT @now,@key,@have,@rev,@taken,@data,@inbox;
