"""Statements that try to write: every kind of statement in DuckDB's grammar, in every wrapper that may hide it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

# {t}: a file to write to, {v}: a view of the lake.
STATEMENTS = """
ALTER VIEW {v} RENAME TO x
ALTER TABLE {v} ADD COLUMN x INTEGER
ANALYZE
ATTACH '{t}' AS x
ATTACH OR REPLACE '{t}' AS x (TYPE duckdb)
CALL enable_logging(storage = 'file', storage_path = '{t}')
CALL force_checkpoint()
CHECKPOINT
COMMENT ON VIEW {v} IS 'x'
COPY (SELECT 1 AS x) TO '{t}'
COPY (SELECT 1 AS x) TO '{t}' (FORMAT parquet, USE_TMP_FILE false)
COPY (SELECT 1 AS x) TO '{t}' (FORMAT csv, USE_TMP_FILE false)
COPY (SELECT 1 AS x) TO '{t}' (FORMAT json, USE_TMP_FILE false)
COPY (SELECT 1 AS x) TO '{t}' (FORMAT parquet, PER_THREAD_OUTPUT, OVERWRITE)
COPY (SELECT 1 AS x, 2 AS y) TO '{t}' (FORMAT parquet, PARTITION_BY (x), OVERWRITE_OR_IGNORE)
COPY (SELECT 1 AS x, 2 AS y) TO '{t}' (FORMAT csv, PARTITION_BY (x), APPEND)
COPY {v} TO '{t}' (FORMAT parquet, USE_TMP_FILE false, RETURN_STATS)
COPY {v} FROM '{t}'
COPY FROM DATABASE memory TO x
CREATE INDEX i ON {v} (source)
CREATE OR REPLACE MACRO m() AS TABLE SELECT 1
CREATE OR REPLACE VIEW {v} AS SELECT 1
CREATE PERSISTENT SECRET s (TYPE http)
CREATE SCHEMA s
CREATE SEQUENCE q
CREATE TABLE c AS SELECT 1 AS x
CREATE TYPE k AS ENUM ('a')
DEALLOCATE p
DELETE FROM {v}
DESCRIBE {v}
DETACH memory
DROP VIEW {v}
EXECUTE p
EXPORT DATABASE '{t}'
FROM {v} LIMIT 1
IMPORT DATABASE '{t}'
INSERT INTO {v} SELECT * FROM {v}
INSTALL httpfs
LOAD httpfs
LOAD '{t}'
MERGE INTO {v} USING (SELECT 1 AS x) AS s ON false WHEN NOT MATCHED THEN INSERT VALUES (1)
PIVOT {v} ON source USING count(*)
PRAGMA database_list
PRAGMA enable_profiling
PRAGMA profiling_output = '{t}'
PREPARE p AS COPY (SELECT 1) TO '{t}' (USE_TMP_FILE false)
RESET lock_configuration
ROLLBACK
SELECT * FROM copy_database('memory', '{t}')
SELECT * FROM enable_logging(storage = 'file', storage_path = '{t}')
SELECT * FROM glob('{t}')
SELECT * FROM import_database('{t}')
SELECT * FROM read_blob('{t}')
SELECT * FROM sniff_csv('{t}')
SELECT write_log('x')
SET allowed_directories = ['/']
SET enable_external_access = true
SET log_query_path = '{t}'
SET profiling_output = '{t}'
SET temp_directory = '{t}'
SET VARIABLE a = 1
SHOW TABLES
SUMMARIZE {v}
TRUNCATE {v}
UNPIVOT {v} ON source
UPDATE {v} SET source = 'x'
UPDATE EXTENSIONS
USE memory
VACUUM ANALYZE
VALUES (1)
""".strip().splitlines()

# {s}: the statement, {q}: the statement as a text.
WRAPPERS = """
{s}
{s};
EXPLAIN {s}
EXPLAIN ANALYZE {s}
explain/**/analyze {s}
EXPLAIN (ANALYZE) {s}
EXPLAIN (ANALYZE, FORMAT json) {s}
EXPLAIN (FORMAT json) {s}
EXPLAIN EXPLAIN ANALYZE {s}
-- a comment#NEWLINE#EXPLAIN ANALYZE {s}
/* EXPLAIN SELECT 1 */ {s}
PREPARE p AS {s}
PREPARE p AS {s}; EXECUTE p
SELECT 1; {s}
{s}; SELECT 1
EXPLAIN SELECT 1; {s}
BEGIN; {s}; COMMIT
WITH x AS ({s}) SELECT * FROM x
WITH x AS MATERIALIZED ({s} RETURNING *) SELECT * FROM x
SELECT * FROM ({s})
SELECT * FROM query('{q}')
SELECT * FROM query_table('{q}')
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('{q}'))
SELECT (SELECT count(*) FROM query('{q}'))
CREATE MACRO m() AS TABLE {s}; FROM m()
CREATE TEMP TRIGGER g AFTER INSERT ON {v} EXECUTE ({s})
PRAGMA {s}
CALL query('{q}')
DESCRIBE {s}
SUMMARIZE {s}
SELECT * FROM duckdb_settings() WHERE name = '{q}'
""".strip().splitlines()


def generate_statements(targets: list[str], views: list[str], count: int, seed: int) -> Iterator[str]:
    """Each statement in each wrapper at least once where `count` allows, with targets and views by chance."""
    draw = random.Random(seed)
    pairs = [(wrapper, statement) for wrapper in WRAPPERS for statement in STATEMENTS]
    draw.shuffle(pairs)
    for place in range(count):
        wrapper, statement = pairs[place % len(pairs)]
        view = draw.choice(views)
        inner = statement.format(t=draw.choice(targets).replace("'", "''"), v=view)
        text = wrapper.format(s=inner, q=inner.replace("'", "''"), v=view).replace("#NEWLINE#", "\n")
        yield text.lower() if draw.random() < 0.1 and "/" not in inner else text


def fingerprint(*roots: Path) -> dict[str, tuple[str, int, int, int]]:
    """Content, mode, size and time of change of every file and directory."""
    found = {}
    for root in roots:
        for path in sorted([root, *root.rglob("*")]):
            status = path.stat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path)] = (content, status.st_mode, status.st_size, status.st_mtime_ns)
    return found
