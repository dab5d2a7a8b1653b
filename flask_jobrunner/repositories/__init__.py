"""The only SQL. Rows leave as frozen records; every move is one guarded UPDATE."""
