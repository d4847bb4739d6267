DECLARE @key varbinary(513)=CONVERT(varbinary(513),@name,2);
