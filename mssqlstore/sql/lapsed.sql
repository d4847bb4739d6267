--@ head.sql
SELECT TOP (@page) id,CAST(0 AS bigint) FROM {sessions} WHERE expires<=@now;
