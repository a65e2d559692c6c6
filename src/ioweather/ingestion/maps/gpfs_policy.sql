-- A list by mmapplypolicy, of a LIST rule whose SHOW labels its values; docs/sources/scan.md has the policy.
-- Read: ioweather ingest --as scan_entries --select gpfs_policy --start TIME --zone ZONE list.all
WITH records AS (
    -- <thread> comes before lines of an external script. The path is behind the first `--`: a user may put another into it.
    SELECT number, line, regexp_extract(line, '^(?:<[0-9]+>)?\s*([0-9]{1,20})\s+[0-9]+\s+-?[0-9]+\s(.*?)-- ((?:/|%2F).*)$',
                                        ['inode', 'shown', 'path']) AS r FROM lines()),
entries AS (
    SELECT r.inode AS inode, map_from_entries(list_transform(regexp_extract_all(r.shown, '[a-z]+=\S*(?: [0-9:.]{8,})?'),
               lambda pair: {'k': split_part(pair, '=', 1), 'v': split_part(pair, '=', 2)})) AS shown,
           CASE WHEN r.path = '' THEN error('Line ' || number || ' is no line of a policy list: ' || left(line, 60))
                WHEN starts_with(r.path, '%') THEN coalesce(TRY(url_decode(r.path)), r.path) ELSE r.path END AS path
    FROM records)
SELECT md5(concat_ws(' ', getvariable('path'), getvariable('start_ns'))) AS scan_id,
       coalesce(getvariable('start_ns'), error('The list has no time. Use --start.')) AS start_ns,
       CASE WHEN getvariable('zone') IS NULL AND shown['mtime'] IS NOT NULL
            THEN error('Times are local times of the cluster. Use --zone.') ELSE path END AS path,
       -- Without DIRECTORIES_PLUS a LIST rule lists files only.
       CASE coalesce(shown['mode'], '-')[1] WHEN '-' THEN 'file' WHEN 'd' THEN 'directory' WHEN 'l' THEN 'symlink'
            ELSE 'other' END AS kind,
       inode::BIGINT AS inode, shown['size']::BIGINT AS size_bytes, shown['kb']::BIGINT * 1024 AS capacity_bytes,
       epoch_us(shown['mtime']::TIMESTAMPTZ) * 1000 AS mtime_ns, epoch_us(shown['atime']::TIMESTAMPTZ) * 1000 AS atime_ns,
       epoch_us(shown['ctime']::TIMESTAMPTZ) * 1000 AS ctime_ns, shown['uid']::BIGINT AS uid, shown['gid']::BIGINT AS gid,
       shown['nlink']::BIGINT AS link_count
FROM entries
