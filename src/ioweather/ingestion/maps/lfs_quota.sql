-- Limits and use of groups and projects on Lustre. Users are left out: everybody may read `series`.
-- Record: (date +%s; for g in $(getent group | cut -d: -f1); do lfs quota -g $g /scratch; done) > quota.txt
-- Read: ioweather ingest --as series --select lfs_quota quota.txt
WITH joined AS (
    -- A long path stands on a line of its own.
    SELECT number, CASE WHEN regexp_matches(line, '^\s*/\S+\s*$') THEN line || ' ' || lead(line) OVER (ORDER BY number)
                        ELSE line END AS line FROM lines()),
owned AS (
    SELECT line, last_value(regexp_extract(nullif(regexp_extract(line, '^Disk quotas for .*', 0), ''),
        '^Disk quotas for (usr|user|grp|group|prj|project) (\S+)', ['kind', 'name']) IGNORE NULLS)
        OVER (ORDER BY number) AS owner FROM joined),
quotas AS (
    SELECT owner, regexp_extract(line,
        '^\s*(/\S+)\s+([0-9]+)\*?\s+([0-9]+)\s+([0-9]+)\s+\S+\s+([0-9]+)\*?\s+([0-9]+)\s+([0-9]+)\s',
        ['mount', 'kib', 'soft', 'hard', 'files', 'soft_files', 'hard_files']) AS f FROM owned),
limits AS (
    SELECT CASE WHEN owner.kind IN ('prj', 'project') THEN 'project:' ELSE 'group:' END || owner.name AS component,
           'mount:' || f.mount AS system, f.kib::DOUBLE * 1024 AS used_bytes, f.files::DOUBLE AS used_files,
           coalesce(nullif(f.hard::DOUBLE, 0), f.soft::DOUBLE) * 1024 AS most_bytes,
           coalesce(nullif(f.hard_files::DOUBLE, 0), f.soft_files::DOUBLE) AS most_files
    FROM quotas WHERE f.mount <> '' AND owner.kind IN ('grp', 'group', 'prj', 'project')),
amounts AS (
    SELECT system, component, unnest(['capacity_bytes', 'free_bytes']) AS metric,
           unnest([most_bytes, greatest(most_bytes - used_bytes, 0)]) AS value FROM limits WHERE most_bytes > 0
    UNION ALL
    SELECT system, component, unnest(['capacity_files', 'free_files']),
           unnest([most_files, greatest(most_files - used_files, 0)]) FROM limits WHERE most_files > 0)
SELECT (SELECT ns(line) FROM lines() WHERE number = 1) AS start_ns, 60000000000 AS interval_ns, system,
       'quota' AS component_kind, component, metric, value
FROM amounts
