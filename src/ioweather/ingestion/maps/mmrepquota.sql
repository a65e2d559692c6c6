-- Use and limits of users, groups and filesets on GPFS.
-- Record: (date +%s; mmrepquota -u -g -j -Y fs1) > quota.txt
-- Read: ioweather ingest --as quotas --select mmrepquota quota.txt
WITH fields AS (SELECT string_split(line, ':') AS f FROM lines() WHERE line LIKE 'mmrepquota:%'),
names AS (SELECT f FROM fields WHERE f[3] = 'HEADER' LIMIT 1),
rows AS (
    SELECT fields.f[list_position(names.f, 'filesystemName')] AS system,
           fields.f[list_position(names.f, 'quotaType')] AS kind, fields.f[list_position(names.f, 'name')] AS owner,
           fields.f[list_position(names.f, 'id')] AS id, fields.f[list_position(names.f, 'filesetname')] AS fileset,
           fields.f[list_position(names.f, 'blockUsage')]::BIGINT * 1024 AS used_bytes,
           nullif(fields.f[list_position(names.f, 'blockQuota')]::BIGINT, 0) * 1024 AS soft_bytes,
           nullif(fields.f[list_position(names.f, 'blockLimit')]::BIGINT, 0) * 1024 AS hard_bytes,
           fields.f[list_position(names.f, 'filesUsage')]::BIGINT AS used_files,
           nullif(fields.f[list_position(names.f, 'filesQuota')]::BIGINT, 0) AS soft_files,
           nullif(fields.f[list_position(names.f, 'filesLimit')]::BIGINT, 0) AS hard_files
    FROM fields, names WHERE fields.f[3] <> 'HEADER')
SELECT (SELECT ns(line) FROM lines() WHERE number = 1) AS start_ns, system,
       CASE kind WHEN 'USR' THEN 'user' WHEN 'GRP' THEN 'group' ELSE 'fileset' END AS owner_kind, owner,
       CASE WHEN kind = 'FILESET' THEN '' ELSE coalesce(fileset, '') END AS fileset,
       CASE WHEN kind = 'USR' THEN id::BIGINT END AS uid,
       used_bytes, soft_bytes, hard_bytes, used_files, soft_files, hard_files
FROM rows WHERE kind IN ('USR', 'GRP', 'FILESET')
