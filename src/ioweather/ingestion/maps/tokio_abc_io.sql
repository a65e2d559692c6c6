-- I/O metrics of the runs in TOKIO-ABC's job summaries. Only sums over files are known: sizes of requests count as 0,
-- and `partial` says that figures are lower bounds. D is the bytes over the rate of the slowest process.
-- Read: ioweather ingest --as job_io --select tokio_abc_io edison-summaries.csv.gz
WITH fields AS (SELECT number, string_split(line, ',') AS f FROM lines() WHERE line <> ''),
header AS (
    SELECT CASE WHEN list_has_all(f, ['darshan_agg_perf_by_slowest_posix', 'darshan_app', 'darshan_biggest_read_fs', 'darshan_biggest_write_fs',
                'darshan_end_time', 'darshan_jobid', 'darshan_nprocs', 'darshan_start_time',
                'darshan_tot_bytes_read_posix', 'darshan_tot_bytes_written_posix',
                'darshan_tot_f_meta_time_posix', 'darshan_tot_f_read_time_posix',
                'darshan_tot_f_write_time_posix', 'darshan_tot_reads_posix',
                'darshan_tot_seq_reads_posix', 'darshan_tot_seq_writes_posix', 'darshan_tot_stats_posix',
                'darshan_tot_writes_posix', 'darshan_walltime'])
                THEN f ELSE error('This is no job summary of TOKIO-ABC: a column is missing.') END AS names
    FROM fields WHERE number = 1),
-- A row has one field more than the header: its number comes first.
rows AS (
    SELECT map(names, list_transform(f[len(f) - len(names) + 1:], lambda x: nullif(x, ''))) AS m
    FROM fields, header WHERE number > 1),
runs AS (
    SELECT m, m['darshan_tot_bytes_read_posix']::DOUBLE AS read, m['darshan_tot_bytes_written_posix']::DOUBLE AS written,
           nullif(m['darshan_agg_perf_by_slowest_posix']::DOUBLE, 0) * 1048576 AS rate,
           m['darshan_nprocs']::BIGINT AS processes, m['darshan_tot_f_meta_time_posix']::DOUBLE AS meta,
           m['darshan_tot_f_read_time_posix']::DOUBLE AS reading,
           m['darshan_tot_f_write_time_posix']::DOUBLE AS writing,
           m['darshan_tot_reads_posix']::DOUBLE::BIGINT AS reads, m['darshan_tot_writes_posix']::DOUBLE::BIGINT AS writes,
           m['darshan_tot_seq_reads_posix']::DOUBLE + m['darshan_tot_seq_writes_posix']::DOUBLE AS sequential
    FROM rows WHERE m['darshan_tot_bytes_read_posix'] IS NOT NULL)
SELECT sha256(concat_ws(' ', m['darshan_jobid'], m['darshan_app'], m['darshan_start_time'])) AS log_digest,
       ns(m['darshan_start_time']) AS start_ns, ns(m['darshan_end_time']) AS end_ns, processes AS nprocs,
       m['darshan_walltime']::DOUBLE AS run_seconds, true AS partial, (read + written) / rate AS io_seconds,
       CASE WHEN written = 0 THEN read / rate END AS d_read_seconds,
       CASE WHEN read = 0 THEN written / rate END AS d_write_seconds,
       read AS read_bytes, written AS write_bytes, rate AS bytes_per_s,
       CASE WHEN written = 0 THEN rate END AS read_bytes_per_s, CASE WHEN read = 0 THEN rate END AS write_bytes_per_s,
       meta AS meta_seconds, reading AS read_seconds, writing AS write_seconds,
       meta / nullif(meta + reading + writing, 0) AS metadata_ratio, (read + written) / processes AS bytes_per_process,
       reads AS read_count, writes AS write_count, reads AS fs_read_count, writes AS fs_write_count,
       read AS fs_read_bytes, written AS fs_write_bytes, m['darshan_tot_stats_posix']::DOUBLE AS stat_count,
       sequential AS sequential_count, sequential / nullif(reads + writes, 0) AS sequential_ratio,
       read AS posix_read_bytes, written AS posix_write_bytes, 'POSIX' AS interfaces,
       m[CASE WHEN read > written THEN 'darshan_biggest_read_fs' ELSE 'darshan_biggest_write_fs' END] AS main_mount,
       0 AS read_0_100_count, 0 AS read_100_1k_count, 0 AS read_1k_10k_count, 0 AS read_10k_100k_count, 0 AS
       read_100k_1m_count, 0 AS read_1m_4m_count, 0 AS read_4m_10m_count, 0 AS read_10m_100m_count, 0 AS
       read_100m_1g_count, 0 AS read_1g_plus_count, 0 AS write_0_100_count, 0 AS write_100_1k_count, 0 AS
       write_1k_10k_count, 0 AS write_10k_100k_count, 0 AS write_100k_1m_count, 0 AS write_1m_4m_count, 0 AS
       write_4m_10m_count, 0 AS write_10m_100m_count, 0 AS write_100m_1g_count, 0 AS write_1g_plus_count, 0 AS
       hdf5_read_bytes, 0 AS hdf5_write_bytes, 0 AS pnetcdf_read_bytes, 0 AS pnetcdf_write_bytes, 0 AS
       mpiio_read_bytes, 0 AS mpiio_write_bytes, 0 AS stdio_read_bytes, 0 AS stdio_write_bytes
FROM runs
