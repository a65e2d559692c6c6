"""`scans`, `scan_bins`, `scan_entries`: what lies in a file system at a moment."""

from __future__ import annotations

from ioweather.core.tables.schema import (
    ANY,
    FILE_SIZE,
    FILE_TIME,
    NOT_NEGATIVE,
    ColumnSpec,
    Range,
    TableSpec,
    is_layout,
    is_object,
)
from ioweather.core.words import names_of

HISTOGRAM_NAMES = names_of("""
    age_size atime capacity ctime depth directory_entries directory_size extension link_count mtime name_length
    overhead_negative overhead_positive size symlink_length
""")


def _known(name: str, doc: str, allowed: Range | None = None) -> ColumnSpec:
    return ColumnSpec(name, "int64", doc, nullable=True, range=allowed)


def _total(name: str, doc: str, allowed: Range | None = None) -> ColumnSpec:
    """One number that a file system says of itself, or that its files make it, must not cost the whole scan."""
    return ColumnSpec(name, "int64", doc, nullable=True, range=allowed, else_null=True)


SCANS = TableSpec(
    name="scans",
    doc="One look at a directory tree: by the scanner, or by another tool whose list was read.",
    columns=(
        ColumnSpec("scan_id", "text", "identity of the scan"),
        ColumnSpec("start_ns", "int64", "when it began; ages are counted from here"),
        _known("end_ns", "when it ended"),
        ColumnSpec("host", "text", "where it ran", nullable=True),
        ColumnSpec("root", "text", "the directory that was scanned"),
        ColumnSpec("system", "text", "raw name of the file system: mount:/path, or as given"),
        ColumnSpec("filesystem_type", "text", "as the kernel names it", nullable=True),
        ColumnSpec("complete", "bool", "nothing was left out: no directory unreadable, no list cut short"),
        ColumnSpec("entry_count", "int64", "names below the root, of any kind"),
        ColumnSpec("file_count", "int64", "regular files, each inode once"),
        _total("file_bytes", "their sizes together", FILE_SIZE),
        _total("capacity_bytes", "what they allocate together"),
        _total("directory_count", "directories, the root too"),
        _total("directory_bytes", "sizes of the directories themselves"),
        _total("symlink_count", "symbolic links; none was followed"),
        _total("other_count", "devices, pipes and sockets"),
        _total("linked_name_count", "names of files that have several"),
        _total("linked_file_count", "files that have several names"),
        _total("largest_file_bytes", "size of the largest file", FILE_SIZE),
        _total("vanished_count", "entries that went away between listing and looking"),
        _total("unreadable_count", "directories that could not be read"),
        _total("not_examined_count", "entries that could not be looked at"),
        _total("skipped_filesystem_count", "mount points that were not entered"),
        _total("skipped_snapshot_count", "snapshot directories that were not entered"),
        _total("total_bytes", "size of the file system"),
        _total("free_bytes", "free for users"),
        _total("total_inodes", "inodes of the file system; null where it makes them as needed", NOT_NEGATIVE),
        _total("used_inodes", "inodes in use in the whole file system", NOT_NEGATIVE),
        ColumnSpec("errors", "text", "JSON: errors by name, with examples", nullable=True, reads=is_object),
        ColumnSpec(
            "largest",
            "text",
            "JSON: largest files, directories with most entries and bytes",
            nullable=True,
            reads=is_object,
        ),
        ColumnSpec("cpu_seconds", "float64", "processor time it took", nullable=True),
    ),
    key=("scan_id",),
    time="start_ns",
    revisable=True,
    order=("start_ns", "scan_id"),
)

SCAN_BINS = TableSpec(
    name="scan_bins",
    doc="Histograms of a scan. Bins of sizes and ages are powers of two: [0, 1), [1, 2), [2, 4), ...",
    columns=(
        ColumnSpec("scan_id", "text", "the scan"),
        ColumnSpec("start_ns", "int64", "when it began"),
        ColumnSpec("root", "text", "the directory that was scanned"),
        ColumnSpec("owner_kind", "text", "all, user, group or project"),
        ColumnSpec("owner", "text", "user or group number, project name; '' for all"),
        ColumnSpec("owner_name", "text", "name of the user or group on the host of the scan", nullable=True),
        ColumnSpec("histogram", "text", f"one of {', '.join(HISTOGRAM_NAMES)}"),
        ColumnSpec("bin", "text", "the bin: its number, size and age bin joined by x, or an extension"),
        _known("low", "lower edge (bytes, days, count, characters or levels); null for labels and times to come", ANY),
        _known("high", "upper edge, not in the bin; null for labels", ANY),
        _known("age_low_days", "lower edge of the age, in age_size", ANY),
        _known("age_high_days", "upper edge of the age, in age_size", ANY),
        ColumnSpec("count", "int64", "files, directories, links or names in the bin"),
        ColumnSpec(
            "bytes", "int64", "what they weigh: bytes of files, allocated bytes, overhead, or length", range=FILE_SIZE
        ),
    ),
    key=("scan_id", "owner_kind", "owner", "histogram", "bin"),
    time="start_ns",
    order=("scan_id", "owner_kind", "owner", "histogram", "bin"),
)

SCAN_ENTRIES = TableSpec(
    name="scan_entries",
    doc="Every entry of a scan, where somebody asked for the listing.",
    columns=(
        ColumnSpec("scan_id", "text", "the scan"),
        ColumnSpec("start_ns", "int64", "when it began"),
        ColumnSpec("path", "text", "path, or its hash"),
        ColumnSpec("escaped", "bool", "not UTF-8: its bytes stand as \\xNN, backslashes doubled", nullable=True),
        ColumnSpec("kind", "text", "directory, file, other or symlink", nullable=True),
        _known("device", "device number", ANY),
        _known("inode", "inode number, its 64 bits read as signed", ANY),
        _known("size_bytes", "size", FILE_SIZE),
        _known("capacity_bytes", "allocated"),
        _known("mtime_ns", "last modification", FILE_TIME),
        _known("atime_ns", "last access", FILE_TIME),
        _known("ctime_ns", "last change of the inode", FILE_TIME),
        _known("uid", "user", NOT_NEGATIVE),
        _known("gid", "group", NOT_NEGATIVE),
        _known("link_count", "hard links"),
        ColumnSpec(
            "osts",
            "text",
            "OST numbers of its stripes, comma-separated; parts of its layout apart by ;",
            nullable=True,
            reads=is_layout,
        ),
    ),
    key=("scan_id", "path"),
    time="start_ns",
    order=("scan_id", "path"),
)
