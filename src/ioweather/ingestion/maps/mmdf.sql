-- Capacity of the disks of a GPFS file system. Record: (date +%s; mmdf fs1 -Y) > mmdf.txt
-- Read: ioweather ingest --as series --select mmdf --system fs1 mmdf.txt
WITH fields AS (SELECT string_split(line, ':') AS f FROM lines() WHERE line LIKE 'mmdf:nsd:%'),
names AS (SELECT f FROM fields WHERE f[3] = 'HEADER'),
disks AS (
    SELECT fields.f[list_position(names.f, 'nsdName')] AS disk,
           fields.f[list_position(names.f, 'size')]::DOUBLE AS size_kib,
           fields.f[list_position(names.f, 'freeBlocks')]::DOUBLE AS free_kib
    FROM fields, names WHERE fields.f[3] = '0')
SELECT (SELECT ns(line) FROM lines() WHERE number = 1) AS start_ns, 60000000000 AS interval_ns,
       'device' AS component_kind, disk AS component, unnest(['capacity_bytes', 'free_bytes']) AS metric,
       unnest([size_kib, free_kib]) * 1024 AS value
FROM disks
