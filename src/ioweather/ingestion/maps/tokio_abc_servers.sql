-- What the servers of a Lustre file system did during each run of TOKIO-ABC's job summaries, by LMT: one sample per run.
-- The amounts of a long run are spread evenly over parts of at most five minutes (quality 8: spread). Where more than 1%
-- of LMT's samples are missing, they are lower bounds (32: partial).
-- Read: ioweather ingest --as series --select tokio_abc_servers edison-summaries.csv.gz
WITH known(name, kind, metric) AS (
    VALUES ('fs_tot_bytes_read', 'ost', 'read_bytes'), ('fs_tot_bytes_written', 'ost', 'write_bytes'),
           ('fs_ave_oss_cpu', 'oss', 'cpu_ratio'), ('fs_ave_mds_cpu', 'mds', 'cpu_ratio')
    UNION ALL
    SELECT 'fs_tot_' || metric, 'mdt', metric FROM (SELECT unnest(['open_ops', 'close_ops', 'mknod_ops', 'link_ops',
        'unlink_ops', 'mkdir_ops', 'rmdir_ops', 'rename_ops', 'getattr_ops', 'setattr_ops', 'getxattr_ops',
        'statfs_ops']) AS metric)),
fields AS (SELECT number, string_split(line, ',') AS f FROM lines() WHERE line <> ''),
header AS (
    SELECT CASE WHEN list_has_all(f, ['darshan_start_time', '_datetime_start', '_datetime_end', '_file_system', 'fs_frac_missing'])
                THEN f ELSE error('This is no job summary of TOKIO-ABC: a column is missing.') END AS names
    FROM fields WHERE number = 1),
metrics AS (
    SELECT coalesce(list_position(names, name), error('There is no column ' || name || '.')) AS place, kind, metric
    FROM known, header),
-- A row has one field more than the header: its number comes first.
rows AS (
    SELECT f[len(f) - len(names) + 1:] AS f, map(names, f[len(f) - len(names) + 1:]) AS m
    FROM fields, header WHERE number > 1),
-- Darshan's time is right; the other one is local time written as if it were UTC.
windows AS (
    SELECT f, ns(m['darshan_start_time']) AS begin_ns, ns(m['_datetime_end']) - ns(m['_datetime_start']) AS long_ns,
           m['_file_system'] AS system,
           CASE WHEN nullif(m['fs_frac_missing'], '')::DOUBLE > 0.01 THEN 32 ELSE 0 END AS lacking
    FROM rows WHERE m['_file_system'] <> ''),
counted AS (SELECT *, ceil(long_ns / 300e9)::BIGINT AS parts FROM windows WHERE long_ns > 0),
runs AS (SELECT *, unnest(range(parts)) AS part, lacking + CASE WHEN parts > 1 THEN 8 ELSE 0 END AS quality FROM counted)
SELECT begin_ns + long_ns * part // parts AS start_ns,
       long_ns * (part + 1) // parts - long_ns * part // parts AS interval_ns, system, kind AS component_kind,
       'all' AS component, metric,
       f[place]::DOUBLE * CASE WHEN metric = 'cpu_ratio' THEN 0.01 ELSE 1 / parts END AS value, quality
FROM runs, metrics WHERE f[place] <> ''
