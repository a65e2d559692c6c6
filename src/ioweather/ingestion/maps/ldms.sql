-- Counters of Lustre clients and of disks by LDMS: CSV of store_csv (lustre_client, procdiskstats) with its header.
-- Read: ioweather ingest --as series --select ldms lustre_client.1710000000
WITH known(counter, metric, factor) AS (
    VALUES ('read_bytes', 'read_bytes', 1), ('write_bytes', 'write_bytes', 1), ('sect_read', 'read_bytes', 512),
           ('sect_written', 'write_bytes', 512), ('reads_comp', 'read_ops', 1), ('writes_comp', 'write_ops', 1),
           ('time_read', 'read_busy_seconds', 1e-3), ('time_write', 'write_busy_seconds', 1e-3)
    UNION ALL
    SELECT counter, counter || '_ops', 1 FROM (SELECT unnest(['open', 'close', 'mknod', 'link', 'unlink', 'mkdir',
        'rmdir', 'rename', 'getattr', 'setattr', 'getxattr', 'setxattr', 'statfs']) AS counter)),
counters AS (UNPIVOT input ON COLUMNS('^[^#].*#') INTO NAME name VALUE text),
samples AS (
    SELECT ns("#Time") AS moment, ProducerName AS node, metric, text::DOUBLE * factor AS amount,
           split_part(name, '#', 2) AS part,
           regexp_extract(part, '^(stats|llite|client|lustre_client)[.]([^.-]+)', 2) AS filesystem
    FROM counters JOIN known
      ON counter = regexp_replace(split_part(name, '#', 1), '^client[.](lstats[.])?|[.]sum$', '', 'g')
    WHERE NOT regexp_matches(part, '^(loop|ram|zram|fd[0-9]|sr[0-9])'))
SELECT lag(moment) OVER (PARTITION BY node, part, metric ORDER BY moment) AS start_ns, moment - start_ns AS interval_ns,
       CASE WHEN filesystem = '' THEN node || ':' || part ELSE filesystem END AS system,
       CASE WHEN filesystem = '' THEN 'device' ELSE 'host' END AS component_kind,
       CASE WHEN filesystem = '' THEN part ELSE node END AS component, metric,
       growth(amount, node || part || metric, moment) AS value,
       reset_flag(amount, node || part || metric, moment) AS quality
FROM samples QUALIFY start_ns IS NOT NULL
