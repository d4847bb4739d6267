--@ head.sql
--@ name.sql
SELECT @now,t.name,t.form,t.rev,t.taken,t.data,t.inbox FROM (SELECT 1 AS one) AS o LEFT JOIN {locks} AS t ON t.name=@key;
