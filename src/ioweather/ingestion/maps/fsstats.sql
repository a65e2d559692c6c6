-- A report of fsstats (Panasas and CMU, 2005 on), the tool of car11: bins of sizes and ages of all files.
-- Read: ioweather ingest --as scan_bins --select fsstats --start TIME --system NAME report.csv
WITH cells AS (SELECT number, line, string_split(line, ',') AS f FROM lines()),
named AS (
    SELECT f, last_value(CASE WHEN f[1] = 'histogram' THEN substr(line, 11) END IGNORE NULLS)
        OVER (ORDER BY number) AS name FROM cells),
bins AS (
    SELECT name, f[1]::BIGINT AS low, f[3]::BIGINT AS entries, f[6]::DOUBLE AS weight, sum(entries) OVER (PARTITION BY name) AS total
    FROM named WHERE len(f) = 8 AND regexp_full_match(f[1], '-?[0-9]+')),
counts AS (SELECT name, f[2]::BIGINT AS printed FROM named WHERE f[1] = 'count'),
-- The histogram of ages by KiB has the KiB as its count.
kinds(name, weighing, histogram, unit) AS (VALUES
    ('file size', NULL, 'size', 1024), ('capacity used', NULL, 'capacity', 1024),
    ('directory size', NULL, 'directory_size', 1024), ('mtime (files)', 'mtime (KB)', 'mtime', 1),
    ('ctime (files)', 'ctime (KB)', 'ctime', 1), ('atime (files)', 'atime (KB)', 'atime', 1))
SELECT md5(concat_ws(' ', getvariable('path'), getvariable('start_ns'))) AS scan_id,
       coalesce(getvariable('start_ns'), error('The report has no time. Use --start.')) AS start_ns,
       coalesce(getvariable('system'), '/') AS root, 'all' AS owner_kind, '' AS owner, histogram, 'fsstats ' || low AS bin,
       -- Times to come are below the first bin, which fsstats calls -1.
       CASE WHEN low >= 0 THEN low * unit END AS low, CASE WHEN low < 0 THEN 0 ELSE greatest(2 * low, 2) * unit END AS high,
       CASE WHEN total = printed THEN entries
            ELSE error('The bins of ' || name || ' are off its count: the report was cut or changed.') END AS count,
       round(coalesce(CASE WHEN weighing IS NULL THEN weight ELSE kib END, 0) * 1024)::BIGINT AS bytes
FROM bins JOIN counts USING (name) JOIN kinds USING (name)
     LEFT JOIN (SELECT name AS weighing, low, entries AS kib FROM bins) USING (weighing, low)
