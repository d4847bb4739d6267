--@ head.sql
--@ rows.sql
INSERT INTO @rows (name,rev) SELECT id,expires FROM {sessions} WHERE id IN ({ids});
SELECT name,rev,rev-@now FROM @rows;
