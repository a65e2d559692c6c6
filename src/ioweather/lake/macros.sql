-- What a SELECT of `ioweather ingest --select` may call beside DuckDB's own functions.

-- A time as nanoseconds since 1970: seconds as a number, or a time with its offset, or one in the zone of --zone.
CREATE MACRO ns(t) AS CASE
    WHEN t IS NULL THEN NULL
    WHEN regexp_full_match(t::VARCHAR, '[0-9]{1,12}([.][0-9]*)?')
        THEN CAST(CAST(t::VARCHAR AS DECIMAL(28, 9)) * 1000000000 AS BIGINT)
    ELSE epoch_us(whole_time(regexp_replace(t::VARCHAR, '[.,][0-9]+', ''))) * 1000
        + CAST(rpad(regexp_extract(t::VARCHAR, '[.,]([0-9]{1,9})', 1), 9, '0') AS BIGINT)
END;
CREATE MACRO whole_time(t) AS CASE
    WHEN regexp_matches(t, '[0-9]:[0-9]{2}.*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$') THEN CAST(t AS TIMESTAMPTZ)
    WHEN getvariable('zone') IS NULL
        THEN error(t || ' has no time zone. Use --zone, or set `zone` in facility.toml.')
    WHEN timezone(getvariable('zone'), CAST(t AS TIMESTAMPTZ)) <> CAST(t AS TIMESTAMP)
        THEN error(t || ' does not exist: clocks go forward.')
    WHEN timezone(getvariable('zone'), CAST(t AS TIMESTAMPTZ) + INTERVAL 1 HOUR) = CAST(t AS TIMESTAMP)
      OR timezone(getvariable('zone'), CAST(t AS TIMESTAMPTZ) - INTERVAL 1 HOUR) = CAST(t AS TIMESTAMP)
        THEN error(t || ' occurs twice (clocks go back). Use times with an offset.')
    ELSE CAST(t AS TIMESTAMPTZ)
END;

-- What a counter of one component grew by since its sample before; null for the first. One that fell began at zero
-- again, and has grown by at least its value: then `reset_flag` is 2, the quality flag for it.
CREATE MACRO growth(value, component, time) AS CASE
    WHEN lag(value) OVER (PARTITION BY component ORDER BY time) IS NULL THEN NULL
    WHEN value >= lag(value) OVER (PARTITION BY component ORDER BY time)
        THEN value - lag(value) OVER (PARTITION BY component ORDER BY time)
    ELSE value
END;
CREATE MACRO reset_flag(value, component, time) AS
    CASE WHEN value < lag(value) OVER (PARTITION BY component ORDER BY time) THEN 2 ELSE 0 END;

-- The lines of a text file that is no table.
CREATE MACRO lines() AS TABLE
    SELECT row_number() OVER () AS number, line
    FROM read_csv(getvariable('file'), columns = {'line': 'VARCHAR'}, delim = chr(31), quote = '', escape = '',
                  header = false, auto_detect = false);
