"""What Lustre calls an operation, and which metric counts it. Names only: shared by LMT archives and stats text."""

from __future__ import annotations

from ioweather.core.words import names_of

OPERATIONS = names_of("""
    open close mknod link unlink mkdir rmdir rename getattr setattr getxattr setxattr statfs sync punch create destroy
""")

# On a metadata server every operation counts; what has no metric of its own is summed into other_ops.
OPERATION_METRICS: dict[str, str] = {
    **{name: f"{name}_ops" for name in OPERATIONS},
    "reconnect": "reconnects",
    # Lines named after bytes count requests; their sum is the bytes. Data-on-MDT makes them appear on MDTs too.
    "read_bytes": "read_ops",
    "write_bytes": "write_ops",
}
# Already counted: each is a part of `rename`, or the timing of the requests that read_bytes and write_bytes count.
COUNTED_ELSEWHERE = frozenset(
    {"samedir_rename", "crossdir_rename", "parallel_rename_file", "parallel_rename_dir", "read", "write"}
)


def metadata_metric(operation: str) -> str | None:
    """The metric of a metadata target that an operation counts towards; None where it is counted already."""
    if operation in COUNTED_ELSEWHERE:
        return None
    return OPERATION_METRICS.get(operation, "other_ops")


def target_metric(operation: str) -> str | None:
    """The same for a storage target, where the rest (pings, connects, the two halves of a bulk request) is no work."""
    return OPERATION_METRICS.get(operation)
