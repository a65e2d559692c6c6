-- Runs of TOKIO-ABC's job summaries (Lockwood et al., SC 2018): what Darshan said of each, summed over its files.
-- Read: ioweather ingest --as applications --select tokio_abc_runs edison-summaries.csv.gz
WITH fields AS (SELECT number, string_split(line, ',') AS f FROM lines() WHERE line <> ''),
header AS (
    SELECT CASE WHEN list_has_all(f, ['darshan_jobid', 'darshan_app', 'darshan_nprocs', 'darshan_start_time', 'darshan_end_time',
                'darshan_tot_bytes_read_posix'])
                THEN f ELSE error('This is no job summary of TOKIO-ABC: a column is missing.') END AS names
    FROM fields WHERE number = 1),
-- A row has one field more than the header: its number comes first.
rows AS (
    SELECT map(names, list_transform(f[len(f) - len(names) + 1:], lambda x: nullif(x, ''))) AS m
    FROM fields, header WHERE number > 1)
SELECT sha256(concat_ws(' ', m['darshan_jobid'], m['darshan_app'], m['darshan_start_time'])) AS log_digest,
       m['darshan_jobid']::BIGINT AS job_id, -1 AS uid, m['darshan_app'] AS exe, m['darshan_nprocs']::BIGINT AS nprocs,
       ns(m['darshan_start_time']) AS start_ns, ns(m['darshan_end_time']) AS end_ns, 'TOKIO-ABC' AS log_version,
       '' AS partial_modules, 'POSIX' AS modules, 'totals' AS form
FROM rows WHERE m['darshan_tot_bytes_read_posix'] IS NOT NULL
