"""Lustre's own counters: stats text as /proc, /sys and `lctl get_param` show it."""
