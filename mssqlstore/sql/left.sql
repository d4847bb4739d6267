--@ head.sql
SELECT id,expires,expires-@now FROM {sessions} WHERE id IN ({ids});
