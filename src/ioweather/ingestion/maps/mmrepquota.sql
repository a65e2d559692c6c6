-- Limits and use of groups and filesets on GPFS. Users are left out: everybody may read `series`.
-- Record: (date +%s; mmrepquota -g -j -Y fs1) > quota.txt
-- Read: ioweather ingest --as series --select mmrepquota quota.txt
WITH fields AS (SELECT string_split(line, ':') AS f FROM lines() WHERE line LIKE 'mmrepquota:%'),
names AS (SELECT f FROM fields WHERE f[3] = 'HEADER' LIMIT 1),
rows AS (
    SELECT fields.f[list_position(names.f, 'filesystemName')] AS system,
           fields.f[list_position(names.f, 'quotaType')] AS kind, fields.f[list_position(names.f, 'name')] AS name,
           fields.f[list_position(names.f, 'blockUsage')]::DOUBLE * 1024 AS used_bytes,
           fields.f[list_position(names.f, 'blockQuota')]::DOUBLE * 1024 AS soft_bytes,
           fields.f[list_position(names.f, 'blockLimit')]::DOUBLE * 1024 AS hard_bytes,
           fields.f[list_position(names.f, 'filesUsage')]::DOUBLE AS used_files,
           fields.f[list_position(names.f, 'filesQuota')]::DOUBLE AS soft_files,
           fields.f[list_position(names.f, 'filesLimit')]::DOUBLE AS hard_files
    FROM fields, names WHERE fields.f[3] <> 'HEADER'),
limits AS (
    SELECT system, CASE kind WHEN 'GRP' THEN 'group:' ELSE 'fileset:' END || name AS component, used_bytes, used_files,
           coalesce(nullif(hard_bytes, 0), soft_bytes) AS most_bytes,
           coalesce(nullif(hard_files, 0), soft_files) AS most_files
    FROM rows WHERE kind IN ('GRP', 'FILESET')),
amounts AS (
    SELECT system, component, unnest(['capacity_bytes', 'free_bytes']) AS metric,
           unnest([most_bytes, greatest(most_bytes - used_bytes, 0)]) AS value FROM limits WHERE most_bytes > 0
    UNION ALL
    SELECT system, component, unnest(['capacity_files', 'free_files']),
           unnest([most_files, greatest(most_files - used_files, 0)]) FROM limits WHERE most_files > 0)
SELECT (SELECT ns(line) FROM lines() WHERE number = 1) AS start_ns, 60000000000 AS interval_ns, system,
       'quota' AS component_kind, component, metric, value
FROM amounts
