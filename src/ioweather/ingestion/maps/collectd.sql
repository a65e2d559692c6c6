-- Bytes and operations of disks by collectd's csv plugin; HOST/disk-NAME/disk_octets-YYYY-MM-DD says what a file is of.
-- Read: ioweather ingest --as series --select collectd DATADIR/*/disk-*/disk_o*
WITH place AS (
    SELECT regexp_extract(getvariable('path'), '([^/]+)/disk-([^/]+)/disk_(octets|ops)-[0-9-]+(?:[.]gz)?$',
                          ['node', 'disk', 'what']) AS named),
samples AS (
    SELECT ns(epoch) AS moment, verb, text::DOUBLE AS amount, text LIKE '%.%' AS is_rate,
           CASE WHEN named.what = '' THEN error('Expected HOST/disk-NAME/disk_octets-DATE or disk_ops-DATE.')
                ELSE named END AS named
    FROM (UNPIVOT input ON read, write INTO NAME verb VALUE text), place)
SELECT lag(moment) OVER (PARTITION BY verb ORDER BY moment) AS start_ns, moment - start_ns AS interval_ns,
       named.node || ':' || named.disk AS system, 'device' AS component_kind, named.disk AS component,
       verb || CASE named.what WHEN 'octets' THEN '_bytes' ELSE '_ops' END AS metric,
       CASE WHEN is_rate THEN amount * interval_ns / 1e9 ELSE growth(amount, verb, moment) END AS value,
       CASE WHEN is_rate THEN 0 ELSE reset_flag(amount, verb, moment) END AS quality
FROM samples QUALIFY start_ns IS NOT NULL
