"""Block devices as text: iostat, sadf, collectl and /proc/diskstats logs become rows of `series`."""
