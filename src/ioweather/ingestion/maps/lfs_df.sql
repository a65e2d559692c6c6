-- Capacity and inodes of Lustre targets. Record: (date +%s; lfs df; lfs df -i) > df.txt
-- Read: ioweather ingest --as series --select lfs_df df.txt
WITH numbered AS (
    SELECT line, last_value(CASE WHEN line LIKE 'UUID%' THEN line LIKE '%Inodes%' END IGNORE NULLS)
        OVER (ORDER BY number) AS is_inodes FROM lines()),
targets AS (
    SELECT is_inodes, regexp_extract(line, '^(\S+)-((OST|MDT)[0-9a-f]{4})_UUID\s+([0-9]+)\s+[0-9]+\s+([0-9]+)\s',
        ['system', 'target', 'kind', 'size', 'free']) AS found
    FROM numbered WHERE line LIKE '%_UUID %')
SELECT (SELECT ns(line) FROM lines() WHERE number = 1) AS start_ns, 60000000000 AS interval_ns, found.system AS system,
       lower(found.kind) AS component_kind, found.system || '-' || found.target AS component,
       CASE WHEN is_inodes THEN unnest(['capacity_files', 'free_files'])
            ELSE unnest(['capacity_bytes', 'free_bytes']) END AS metric,
       unnest([found.size::DOUBLE, found.free::DOUBLE]) * CASE WHEN is_inodes THEN 1 ELSE 1024 END AS value
FROM targets WHERE found.system <> ''
