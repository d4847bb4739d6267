--@ head.sql
--@ rows.sql
INSERT INTO @rows (name,rev) SELECT id,expires FROM {sessions} WHERE id IN ({ids});
-- One row for each requested session: one counts as ended only if the server says so.
SELECT v.id,COALESCE(r.rev,0),COALESCE(r.rev-@now,0) FROM (VALUES {asked}) AS v (id) LEFT JOIN @rows AS r ON r.name=v.id;
