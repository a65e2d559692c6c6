-- Use and limits of users, groups and projects on Lustre.
-- Record: (date +%s; for u in $(getent passwd | cut -d: -f1); do lfs quota -u $u /scratch; done) > quota.txt
-- Read: ioweather ingest --as quotas --select lfs_quota quota.txt
WITH joined AS (
    -- A long path stands on a line of its own.
    SELECT number, CASE WHEN regexp_matches(line, '^\s*/\S+\s*$') THEN line || ' ' || lead(line) OVER (ORDER BY number)
                        ELSE line END AS line FROM lines()),
owned AS (
    SELECT line, last_value(regexp_extract(nullif(regexp_extract(line, '^Disk quotas for .*', 0), ''),
        '^Disk quotas for (usr|user|grp|group|prj|project) (\S+)(?: \([ug]id (\d+)\))?', ['kind', 'name', 'id'])
        IGNORE NULLS) OVER (ORDER BY number) AS owner FROM joined),
quotas AS (
    SELECT owner, regexp_extract(line,
        '^\s*(/\S+)\s+([0-9]+)\*?\s+([0-9]+)\s+([0-9]+)\s+\S+\s+([0-9]+)\*?\s+([0-9]+)\s+([0-9]+)\s',
        ['mount', 'kib', 'soft', 'hard', 'files', 'soft_files', 'hard_files']) AS f FROM owned)
SELECT (SELECT ns(line) FROM lines() WHERE number = 1) AS start_ns, 'mount:' || f.mount AS system,
       CASE left(owner.kind, 1) WHEN 'u' THEN 'user' WHEN 'g' THEN 'group' ELSE 'project' END AS owner_kind,
       owner.name AS owner, '' AS fileset,
       CASE WHEN left(owner.kind, 1) = 'u' THEN nullif(owner.id, '')::BIGINT END AS uid,
       f.kib::BIGINT * 1024 AS used_bytes, nullif(f.soft::BIGINT, 0) * 1024 AS soft_bytes,
       nullif(f.hard::BIGINT, 0) * 1024 AS hard_bytes, f.files::BIGINT AS used_files,
       nullif(f.soft_files::BIGINT, 0) AS soft_files, nullif(f.hard_files::BIGINT, 0) AS hard_files
FROM quotas WHERE f.mount <> '' AND owner.name <> ''
