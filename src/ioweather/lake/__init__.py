"""The lake: Delta tables in one directory, a ledger, pinned versions, queries, and SQL in a sandbox."""
