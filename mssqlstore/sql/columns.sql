--@ head.sql
SELECT CASE WHEN c.object_id=OBJECT_ID(@sessions,N'U') THEN 1 ELSE 0 END,c.name,y.name,c.max_length,c.is_nullable,COALESCE(k.key_ordinal,0)
FROM sys.columns AS c
JOIN sys.types AS y ON y.user_type_id=c.user_type_id
LEFT JOIN sys.indexes AS i ON i.object_id=c.object_id AND i.is_primary_key=1
LEFT JOIN sys.index_columns AS k ON k.object_id=c.object_id AND k.index_id=i.index_id AND k.column_id=c.column_id
WHERE c.object_id IN (OBJECT_ID(@locks,N'U'),OBJECT_ID(@sessions,N'U'));
