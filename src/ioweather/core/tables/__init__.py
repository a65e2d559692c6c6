"""The tables of the lake: jobs and runs, storage, ingestion. Columns with units in their names, and natural keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.frames import Frame
from ioweather.core.tables.schema import COMPONENT_KINDS as COMPONENT_KINDS
from ioweather.core.tables.schema import INTERFACES as INTERFACES
from ioweather.core.tables.schema import LAKE_COLUMNS as LAKE_COLUMNS
from ioweather.core.tables.schema import RULES, Fault, columns_of, most_per_s
from ioweather.core.tables.schema import SCHEMA_VERSION as SCHEMA_VERSION
from ioweather.core.tables.schema import STRATEGIES as STRATEGIES
from ioweather.core.tables.schema import Checked as Checked
from ioweather.core.tables.schema import ColumnSpec as ColumnSpec
from ioweather.core.tables.schema import Complaints as Complaints
from ioweather.core.tables.schema import Quality as Quality
from ioweather.core.tables.schema import TableSpec as TableSpec
from ioweather.core.tables.schema import concat as concat
from ioweather.core.tables.schema import encode_text as encode_text
from ioweather.core.units import NS, names_of

# Darshan's ten access-size bins, as column-name parts, and the largest size in each (the last is open).
SIZE_BINS = ("0_100", "100_1k", "1k_10k", "10k_100k", "100k_1m", "1m_4m", "4m_10m", "10m_100m", "100m_1g", "1g_plus")
SIZE_BIN_UPPER_BYTES = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30, None)
READ_BINS = tuple(f"read_{size}_count" for size in SIZE_BINS)
WRITE_BINS = tuple(f"write_{size}_count" for size in SIZE_BINS)
FILE_MODULES = ("MPI-IO", "POSIX", "STDIO")
VERDICT_KINDS = ("both", "normal", "system", "unexplained", "unknown", "you")
VERDICT_PARTS = ("usual", "system", "own", "unexplained")
# The cluster of accounting records that name none, if no option names one either.
UNNAMED_CLUSTER = "cluster"
# What describes an unhealthy component in `events`.
EVENT_COLUMNS: Final = ("system", "component", "label", "start_ns", "end_ns", "strength_ratio", "details")
EVENT_KINDS = ("annotation", "component_health", "episode", "gap", "incident", "maintenance", "phase")
HISTOGRAM_NAMES = names_of("""
    age_size atime capacity ctime depth directory_entries directory_size extension link_count mtime name_length
    overhead_negative overhead_positive size symlink_length
""")


@dataclass(frozen=True)
class Metric:
    """Extensive metrics are amounts in the interval and add up; intensive ones are means over it."""

    name: str
    unit: str
    extensive: bool
    doc: str

    def most(self, kind: str) -> float:
        """Largest possible value for a component of this kind; for an extensive metric per second."""
        if not self.extensive:
            return _MOST_OF.get(self.name) or _MOST[self.unit]
        return most_per_s(kind, self.unit)


# The largest file systems hold less than 2^60 bytes, and files no smaller than one. No request waits for thirty years.
_MOST: Final = {"bytes": float(1 << 60), "count": float(1 << 60), "seconds": 1e9, "ratio": 1.0}
# The largest machines have ten million cores; each may have a hundred requests in flight.
_MOST_OF: Final = {"queue_length": 1e9, "client_count": 1e9}
# Ticks of the kernel and the time between two looks do not fit: iostat prints up to 100.4%. So much beyond 0 or 1 is
# taken for it.
_JITTER: Final = 0.05


def _metrics(text: str, *, extensive: bool) -> dict[str, Metric]:
    """The metrics of lines `name unit what it counts`."""
    rows = (line.split(maxsplit=2) for line in text.strip().splitlines())
    return {name: Metric(name, unit, extensive, doc) for name, unit, doc in rows}


METRICS: dict[str, Metric] = {
    **_metrics(
        """
        read_bytes             bytes   bytes read
        write_bytes            bytes   bytes written
        discard_bytes          bytes   bytes discarded (TRIM)
        read_ops               count   read requests
        write_ops              count   write requests
        discard_ops            count   discard requests
        flush_ops              count   cache flush requests
        open_ops               count   file opens at the metadata server
        close_ops              count   file closes at the metadata server
        mknod_ops              count   mknod (creates)
        link_ops               count   hard links made
        unlink_ops             count   unlinks
        mkdir_ops              count   directories made
        rmdir_ops              count   directories removed
        rename_ops             count   renames
        getattr_ops            count   getattr (stat)
        setattr_ops            count   setattr
        getxattr_ops           count   getxattr
        setxattr_ops           count   setxattr
        statfs_ops             count   statfs
        sync_ops               count   sync
        punch_ops              count   truncates on a target
        create_ops             count   object creates on a target
        destroy_ops            count   object destroys on a target
        other_ops              count   metadata operations with no metric of their own
        reconnects             count   client reconnects
        network_send_bytes     bytes   bytes that Lustre's network (LNet) sent from this host
        network_receive_bytes  bytes   bytes that it received
        network_drop_ops       count   messages that it dropped
        read_busy_seconds      seconds time spent on reads, summed over requests
        write_busy_seconds     seconds time spent on writes, summed over requests
        metadata_busy_seconds  seconds time spent on metadata operations, summed over requests
        request_ops            count   requests that a service of a server, or an NFS client, has seen answered
        request_wait_seconds   seconds time that requests waited for a thread or a slot, summed
        read_rtt_seconds       seconds time that reads were on the way and at the server, summed
        write_rtt_seconds      seconds time that writes were on the way and at the server, summed
        metadata_rtt_seconds   seconds the same of all other requests
        bulk_read_ops          count   bulk requests that read
        bulk_write_ops         count   bulk requests that wrote
        small_bulk_read_ops    count   of these, requests of at most 128 pages
        small_bulk_write_ops   count   of these, requests of at most 128 pages
        disk_read_ops          count   reads that a target made on its disks
        disk_write_ops         count   writes that a target made on its disks
        slow_disk_read_ops     count   of these, reads that took longer than 128 ms
        slow_disk_write_ops    count   of these, writes that took longer than 128 ms
        """,
        extensive=True,
    ),
    **_metrics(
        """
        cpu_ratio              ratio   share of CPU time not idle
        memory_ratio           ratio   share of memory used
        busy_ratio             ratio   share of time with a request in flight (%util)
        await_seconds          seconds mean response time of a request
        read_await_seconds     seconds mean response time of a read
        write_await_seconds    seconds mean response time of a write
        queue_length           count   mean requests in flight
        client_count           count   connected clients (exports)
        capacity_bytes         bytes   capacity
        free_bytes             bytes   free capacity
        capacity_files         count   inodes
        free_files             count   free inodes
        """,
        extensive=False,
    ),
}
RULES.update(
    verdict_kinds=frozenset(VERDICT_KINDS),
    event_kinds=frozenset(EVENT_KINDS),
    metrics=frozenset(METRICS),
    operations=frozenset(("create", "delete", "file_read", "read", "stat", "write", "write_sync")),
    modes=frozenset(("cache", "nocache")),
    statuses=frozenset(("error", "missed", "ok", "pending")),
)


def judge_samples(frame: Frame) -> Iterator[Fault]:
    """What the metric allows its values to be. An infinite one is refused elsewhere.

    A negative difference of counters means that they restarted, and says nothing of the amount; neither does a value
    above all limits. Both stay as samples without a value, so that a reader sees the flag and counts a gap.
    """
    value, text = frame.array("value"), frame.text("metric")
    known = [METRICS.get(name) for name in text.categories]
    kinds = frame.text("component_kind")
    limits = [[metric.most(kind) if metric else np.inf for metric in known] + [np.inf] for kind in kinds.categories]
    most = np.array([*limits, [np.inf] * (len(known) + 1)])[kinds.codes, text.codes]
    below, above = (value < 0) & (value > -np.inf), (value > most) & (value < np.inf)
    if not below.any() and not above.any():
        return
    extensive = np.array([metric is not None and metric.extensive for metric in known] + [False])[text.codes]
    ratio = np.array([metric is not None and metric.unit == "ratio" for metric in known] + [False])[text.codes]
    # Rows shorter than a second may hold what ended in them and began before.
    above &= ~extensive | (value > most * np.maximum(frame.array("interval_ns") / NS, 1.0))
    for rows, becomes in ((below & ratio & (value >= -_JITTER), 0.0), (above & ratio & (value <= 1 + _JITTER), 1.0)):
        if rows.any():
            yield Fault(rows, "value", f"of a ratio was just beyond {becomes:.0f}", stays=True, becomes=becomes)
            below, above = below & ~rows, above & ~rows
    if (rows := below & extensive).any():
        yield Fault(rows, "value", "is an amount below 0 (RESET)", True, np.nan, int(Quality.RESET))
    if (rows := below & ~extensive).any():
        yield Fault(rows, "value", "is below 0")
    if above.any():
        yield Fault(above, "value", "is above what can be (OVER_LIMIT)", True, np.nan, int(Quality.OVER_LIMIT))


def judge_operations(frame: Frame) -> Iterator[Fault]:
    """More than a target can do in the time: the counter is not the job's, or the time is wrong."""
    seconds = np.maximum(frame.array("interval_ns") / NS, 1.0)
    kinds = frame.text("component_kind")
    for column in ("count", "bytes"):
        limits = np.array([most_per_s(kind, column) for kind in kinds.categories] + [np.inf])
        above = np.ma.filled(np.ma.masked_array(frame.array(column)) > limits[kinds.codes] * seconds, False)
        if above.any():
            yield Fault(above, column, "is more than a target can do in the time")


def _bins(kind: str, layer: str) -> str:
    """Lines of columns of the twenty access-size bins, reads first."""
    return "\n".join(
        f"{verb}_{size}_count {kind} {verb}s of {size.replace('_', ' to ')} bytes, {layer}"
        for verb in ("read", "write")
        for size in SIZE_BINS
    )


_SPAN = """first_open_ns int? start of the first open
    last_close_ns int? end of the last close
    first_read_ns int? start of the first read
    last_read_ns int? end of the last read
    first_write_ns int? start of the first write
    last_write_ns int? end of the last write"""
_COMMON_SIZES = "\n".join(
    [f"access{i}_bytes int? size of the {i}. most common access" for i in range(1, 5)]
    + [f"access{i}_count int? accesses of the {i}. most common size" for i in range(1, 5)]
)
_BY_STRATEGY = "\n".join(
    [f"{name}_file_count int? {name.replace('_', ' ')} files" for name in STRATEGIES]
    + [
        f"{name}_{verb}_bytes int? bytes of {verb}s on {name.replace('_', ' ')} files"
        for name in STRATEGIES
        for verb in ("read", "write")
    ]
)
_BY_INTERFACE = "\n".join(
    f"{interface.lower().replace('-', '')}_{verb}_bytes int bytes of {verb}s through {interface}"
    for interface in INTERFACES
    for verb in ("read", "write")
)
_SPLIT = "\n".join(
    f"""{part}_seconds float? I/O time: {words}
    {part}_low_seconds float? lower end of its 90% interval
    {part}_high_seconds float? upper end of its 90% interval"""
    for part, words in zip(
        VERDICT_PARTS, ("as usual", "the system", "what it did differently", "unexplained"), strict=True
    )
)

APPLICATIONS = TableSpec(
    "applications",
    "One row per Darshan log: one instance of an application.",
    columns_of("""
        log_digest      text         content digest of the log
        job_id          int(any)     job id in the log: Slurm's JobIDRaw, or a pid outside a scheduler
        uid             int(any)     user id
        exe             text?        command line
        nprocs          int(processes) processes
        start_ns        int          start of the run
        end_ns          int          end of the run
        log_version     text         Darshan log version
        partial_modules text         comma-separated modules with partial data; '' = complete
        longer_records  text?        comma-separated modules to whose records a fork of Darshan added counters, \
            which are not read
        mounts          text?(object_of_texts) JSON: mount point to file system type
        modules         text         comma-separated modules present
        hosts           int?(parts)  distinct host names in DXT, where recorded
        form            text?        what the run was read from: null = its log, text = records of darshan-parser, \
            export = records in Parquet, totals = sums over its files, trace = text of darshan-dxt-parser (up to \
            0.2)
        file_counts     text?(object_of_objects) JSON: files by module and kind, of sums that darshan-parser printed\
             (up to 0.2)
    """),
    key=("log_digest",),
    time="start_ns",
    order=("start_ns", "log_digest"),
)

FILES = TableSpec(
    "files",
    "One row per file record of a log's POSIX, MPI-IO and STDIO modules. A counter its module lacks is null.",
    columns_of(f"""
        log_digest               text         content digest of the log
        start_ns                 int          start of the run
        record_id                int(any)     Darshan's record id (a hash of the path), its 64 bits read as signed; \
            0 = all files together
        rank                     int(rank)    rank that opened the file; -1 = one record for all ranks
        module                   text         MPI-IO, POSIX or STDIO
        path                     text?        path, its hash, or null: as asked at ingest
        mount                    text?        longest mount point of the log that holds the path
        library                  text?        HDF5 or PnetCDF where the file was opened through it
        standard_stream          bool         standard stream, or a file that MPI made for itself: no file of the job's
        open_count               int?         opens, stream opens included; null = made of a trace
        stream_open_count        int?         fopen() calls, where POSIX records count them (Darshan 2.x, 3.0)
        read_count               int          read operations
        write_count              int          write operations
        seek_count               int?         seeks
        stat_count               int?         stats
        sync_count               int?         fsync, fdatasync, MPI_File_sync or fflush calls
        read_bytes               int          bytes read
        write_bytes              int          bytes written
        read_extent_bytes        int?(not_negative) highest byte read, plus one; null = nothing read
        write_extent_bytes       int?(not_negative) highest byte written, plus one; null = nothing written
        size_at_open_bytes       int?(not_negative) size of the file when first opened (Darshan 2.x)
        sequential_read_count    int?         reads at a higher offset than the one before
        sequential_write_count   int?         writes at a higher offset than the one before
        consecutive_read_count   int?         reads that begin where the one before ended
        consecutive_write_count  int?         writes that begin where the one before ended
        switch_count             int?         changes between reading and writing
        file_not_aligned_count   int?         accesses not aligned in the file; null = not tested
        memory_not_aligned_count int?         accesses not aligned in memory
        file_alignment_bytes     int?         alignment that was tested for
        collective_open_count    int?         collective opens (MPI-IO)
        collective_read_count    int?         collective and split collective reads (MPI-IO)
        collective_write_count   int?         collective and split collective writes (MPI-IO)
        nonblocking_count        int?         non-blocking reads and writes (MPI-IO)
        {_bins("int?", "as this module saw them")}
        {_COMMON_SIZES}
        meta_seconds             float?       time in metadata operations, all ranks of the record; close() flushes \
            count here
        read_seconds             float?       time in reads, all ranks of the record
        write_seconds            float?       time in writes and syncs, all ranks of the record
        max_read_seconds         float?       slowest single read
        max_write_seconds        float?       slowest single write
        fastest_rank             int?(rank)   rank with the least I/O time; shared records
        fastest_rank_bytes       int?         bytes moved by it
        fastest_rank_seconds     float?       its metadata, read and write time
        slowest_rank             int?(rank)   rank with the most I/O time; shared records
        slowest_rank_bytes       int?         bytes moved by it
        slowest_rank_seconds     float?       its metadata, read and write time
        {_SPAN}
        stripe_count             int?         Lustre stripes, where recorded
        stripe_bytes             int?         Lustre stripe size, where recorded
        osts                     text?(numbers) comma-separated OST numbers, where recorded
    """),
    key=("log_digest", "record_id", "rank", "module"),
    time="start_ns",
    order=("log_digest", "module", "record_id", "rank"),
)

JOB_IO = TableSpec(
    "job_io",
    "Job I/O metrics that one log alone yields (METHODS section 1); bytes and times of the layer the job called. "
    "Counts are null where only text of the log was read that does not tell them.",
    columns_of(f"""
        log_digest               text         content digest of the log
        start_ns                 int          start of the run
        end_ns                   int          end of the run
        nprocs                   int(processes) processes
        run_seconds              float        D_J: end - start
        partial                  bool         a module ran out of memory, or only sums or a trace were read: figures\
             are lower bounds
        d_u_m_seconds            float?       D_U_M: metadata time of the slowest rank on unshared files; null = \
            there are none
        d_u_rw_seconds           float?       D_U_RW: read and write time of that rank
        d_s_seconds              float?       D_S: time on files shared by all ranks, by d_s_definition; null = none\
             did I/O
        d_s_definition           text?        slowest, or per_file where no slowest rank is recorded
        d_s_span_seconds         float?       D_S as one span, first open to last I/O (mad17)
        d_s_per_file_seconds     float?       D_S as that span per file, summed (car11)
        d_s_slowest_seconds      float?       D_S as the slowest rank's time per file, summed
        io_seconds               float?       D = D_U_M + D_U_RW + D_S (mad17 Eq. 1)
        posix_io_seconds         float?       D of the POSIX records alone, those below MPI-IO too; null = no MPI-IO
        d_read_seconds           float?       D of reading alone, with its share of metadata time
        d_write_seconds          float?       D of writing alone, with its share of metadata time
        d_f_r_seconds            float?       D_F_R: longest first-to-last read of a file (mad17 Eq. 6)
        d_f_w_seconds            float?       D_F_W: longest first-to-last write of a file (mad17 Eq. 6)
        read_bytes               int          bytes read, once, at the highest layer
        write_bytes              int          bytes written, once, at the highest layer
        bytes_per_s              float?       (bytes read + written) / D
        read_bytes_per_s         float?       bytes read / d_read_seconds
        write_bytes_per_s        float?       bytes written / d_write_seconds
        meta_seconds             float?       metadata time over all processes; close() flushes count here
        read_seconds             float?       read time over all processes
        write_seconds            float?       write time over all processes
        metadata_ratio           float?       meta_seconds of the three together (car11 Table IV)
        file_count               int?         files opened or accessed
        read_only_file_count     int?         files only read
        write_only_file_count    int?         files only written
        read_write_file_count    int?         files read and written
        {_BY_STRATEGY}
        create_count             int?         files written and created by the job, by create_rule
        create_rule              text?        size_at_open, or the proxy written_whole
        size_known_file_count    int?         written files whose size at open is recorded; null = none (Darshan 3.x)
        new_or_empty_file_count  int?         of these, the files that were new or empty when opened
        files_per_process        float?       files per process
        creates_per_process      float?       files created per process
        bytes_per_process        float?       bytes read and written per process
        read_count               int          read operations of the application
        write_count              int          write operations of the application
        fs_read_count            int          read operations the file system saw: the POSIX layer, below MPI-IO too
        fs_write_count           int          write operations the file system saw
        fs_read_bytes            int          bytes of these reads
        fs_write_bytes           int          bytes of these writes
        seek_count               int?         seeks (POSIX, STDIO)
        stat_count               int?         stats (POSIX)
        collective_count         int?         collective reads and writes (MPI-IO)
        independent_count        int?         independent reads and writes (MPI-IO)
        sequential_count         int?         POSIX accesses at a higher offset than the one before
        consecutive_count        int?         POSIX accesses that begin where the one before ended
        alignment_tested_count   int?         POSIX accesses whose alignment was tested
        not_aligned_count        int?         of these, the accesses not aligned in the file
        sequential_ratio         float?       sequential of POSIX accesses (SEQ, not CONSEC)
        aligned_ratio            float?       1 - FILE_NOT_ALIGNED / POSIX accesses tested
        {_bins("int", "at the layer the application called")}
        common_access_bytes      int?         most common access size
        common_access_count      int?         accesses of that size
        interfaces               text(interfaces) comma-separated interfaces used directly; '' = no file
        {_BY_INTERFACE}
        io_rank_count            int?         ranks that moved data; a file shared by all counts all of them
        rank0_bytes              int?         bytes that rank 0 alone moved
        main_mount               text?        mount point with most of the bytes
        {_SPAN}
    """),
    key=("log_digest",),
    time="start_ns",
    order=("start_ns", "log_digest"),
)

VERDICTS = TableSpec(
    "verdicts",
    "Verdicts on runs. As of the run's end only runs that had ended by then were compared; a row with a later "
    "`as_of_ns` is a revision, and stands beside the first. Of one run and one `as_of_ns`, the row of the newest "
    "model counts, then the one that was made last.",
    columns_of(f"""
        log_digest               text?        the run: content digest of its log; null where it has none
        cluster                  text?        cluster of a job without a log
        raw_job_id               int?(any)    job id in the log: Slurm's JobIDRaw
        step                     text?        step of a job without a log; '' for all of it
        uid                      int?(any)    user id
        start_ns                 int          start of the run
        end_ns                   int          end of the run
        as_of_ns                 int(planned_time) only runs that had ended by then count
        model_version            int(not_negative) version of the model that judged
        judged_ns                int          when it was judged
        kind                     text(verdict_kinds) {", ".join(VERDICT_KINDS)}
        reason                   text?        why it is unknown
        likeliest                text(verdict_kinds) the likeliest kind
        probability_ratio        float?       probability of the likeliest kind
        probabilities            text?        JSON: probability by kind
        io_seconds               float?       I/O time of the run
        harm_seconds             float?       slowdown is counted from here
        {_SPLIT}
        filesystem               text?        file system that was looked at
        changed                  text?        JSON: measures of its pattern that differ from similar runs
        culprits                 text?        JSON: jobs that slowed it, with probability and seconds
        unhealthy                text?        JSON: components that were unhealthy meanwhile
        worth                    text?        JSON: what is worth changing, the most seconds first
        similar_count            int          similar runs it was compared with
        coverage_ratio           float?       share of the run in which the system was sampled
        headline                 text         the verdict in one sentence
        table_versions           text?        JSON: versions of the tables that were read
        software_version         text         version of ioweather that judged
    """),
    key=("log_digest", "cluster", "raw_job_id", "step", "as_of_ns"),
    time="as_of_ns",
    revisable=True,
    revision=("model_version",),
    order=("as_of_ns", "log_digest"),
)

JOBS = TableSpec(
    "jobs",
    "Scheduler accounting: one row per run of a job or step; the newest row of a key counts. A requeued job is "
    "submitted again, so its runs differ in submit_ns, whether a dump lists all of them or the last alone.",
    columns_of("""
        cluster      text         cluster name
        raw_job_id   int?(not_negative) the scheduler's raw id (Slurm JobIDRaw), where it is known
        step         text         step name; '' for the allocation
        restart      int?(parts)  how many requeues came before, where recorded
        job_id       text         as shown to users: 22_1, 43+0
        array_job_id int?(not_negative) array the job belongs to
        het_offset   int?(parts)  component of a heterogeneous job
        uid          int?(any)    numeric user id
        user         text?        user name
        account      text?        account charged
        name         text?        job name
        state        text         final or current state
        submit_ns    int          submitted; of a step: started
        start_ns     int?         started; null if it never did
        end_ns       int?         ended; null while running
        node_count   int?(parts)  nodes allocated
        cpu_count    int?(parts)  CPUs allocated
        nodes        text?        node list, expanded, comma-separated
    """),
    key=("cluster", "job_id", "step", "submit_ns"),
    time="submit_ns",
    revisable=True,
    # An old dump read after a new one must not bring a finished job back to life, nor let a running one wait again; nor
    # may a poor one take its raw id away.
    revision=("end_ns", "start_ns", "raw_job_id"),
    order=("cluster", "job_id", "step", "submit_ns"),
    placeholder=("cluster", UNNAMED_CLUSTER),
)

EVENTS = TableSpec(
    "events",
    "Phases of benchmarks, maintenance, gaps, incidents, episodes, annotations.",
    columns_of("""
        event_id       text         identity; a later row of the same id revises it
        kind           text(event_kinds) annotation, component_health, episode, gap, incident, maintenance or phase
        system         text?        raw name of the system
        component      text?        component, where it is about one
        host           text?        host, where it is about one
        start_ns       int(planned_time) start
        end_ns         int?(planned_time) end; null = ongoing
        label          text         what people call it
        strength_ratio float?(factor) how strong, where that has a meaning
        details        text?(event_details) JSON with the rest
        withdrawn      bool?        true where a later look found that it was none: not shown
    """),
    key=("event_id",),
    time="start_ns",
    revisable=True,
    order=("kind", "start_ns"),
)

JOB_OPERATIONS = TableSpec(
    "job_operations",
    "What a job did on a target in [start, start + interval), by operation: differences of the servers' counters "
    "(Lustre job_stats). An operation that did not happen has no row.",
    columns_of("""
        start_ns       int          start of the interval, UTC ns
        interval_ns    int          length of the interval
        system         text         raw name of the system: Lustre fsname
        component_kind text(component_kinds) ost or mdt
        component      text         the target
        job_key        text         the job id as the servers have it; '' for work without one
        job_id         int?(not_negative) the scheduler's raw id, where the key tells
        cluster        text?        cluster of that id, where it is known
        uid            int?(any)    numeric user id, where the key tells
        exe            text?        program, where the key tells
        host           text?        client, where the key tells
        operation      text         read, write, open, ...: as the server names it
        count          int          how often
        bytes          int?         bytes moved, of reads and writes
        time_ns        int?(not_negative) server time summed over operations, where it is counted
        histogram      text?(object_of_counts) JSON: bytes up to -> operations, where it is counted
        quality        int(flags)   bit set: 2 reset (the entry started again: a lower bound); 64 whole_life \
            (counted since the entry began, by a lone snapshot: other rows may hold parts of it); 128 time_doubtful
    """),
    key=("start_ns", "interval_ns", "system", "component_kind", "component", "job_key", "operation"),
    time="start_ns",
    order=("system", "job_key", "component", "operation", "start_ns"),
    judge=judge_operations,
)

BENCHMARKS = TableSpec(
    "benchmarks",
    "One phase of a benchmark run, in the benchmark's own words.",
    columns_of("""
        digest           text         identity of the run: of its start and command, where it prints them, else of \
            the file
        phase            text         phase name, unique within the file (write, read, ior-easy-write, ...)
        tool             text         ior, mdtest or io500
        operation        text?        read, write, create, stat, delete, ...
        bytes_per_s      float?(benchmark_bytes_per_s) bandwidth it printed
        ops_per_s        float?(benchmark_ops_per_s) operations per second it printed
        duration_seconds float?       time it printed
        start_ns         int?         start of the phase
        end_ns           int?         end of the phase
        parameters       text?(object) JSON: tasks, transfer size, block size, command line
    """),
    key=("digest", "phase"),
    time="start_ns",
    revisable=True,
    # Of an output that was cut and the whole one, whichever came first, the whole one counts.
    revision=("end_ns", "duration_seconds"),
    order=("start_ns",),
)

SERIES = TableSpec(
    "series",
    "Samples of servers, targets and devices. One row: one metric of one component in [start, start + interval).",
    columns_of("""
        start_ns       int          start of the interval, UTC ns
        interval_ns    int          length of the interval; raw and 1-minute rows differ by it
        system         text         raw name of the system: Lustre fsname, or host:device
        component_kind text(component_kinds) ost, oss, mdt, mds, device, host or quota
        component      text         name of the component within its system
        metric         text(metrics) one of the closed list of metrics
        value          float?(sample) amount in the interval (extensive) or mean over it (intensive)
        quality        int(flags)   bit set: 1 late, 2 reset, 4 over_limit, 8 spread, 16 shutdown, 32 partial, 128 \
            time_doubtful
    """),
    key=("start_ns", "interval_ns", "system", "component_kind", "component", "metric"),
    time="start_ns",
    order=("system", "component_kind", "source", "interval_ns", "metric", "start_ns", "component"),
    # The last minute of an archive that still grows.
    unfinished=int(Quality.PARTIAL),
    judge=judge_samples,
)

COMPONENTS = TableSpec(
    "components",
    "Topology: which component sat on which server, and its physical limit, from when to when.",
    columns_of("""
        system            text         raw name of the system
        kind              text(component_kinds) ost, oss, mdt, mds, device, host or quota
        component         text         name of the component
        valid_from_ns     int          from when this row holds
        valid_to_ns       int?(planned_time) until when; null = still
        server            text?        the server it is attached to
        limit_bytes_per_s float?       physical limit, where known
    """),
    key=("system", "kind", "component", "valid_from_ns"),
    time="valid_from_ns",
    revisable=True,
    order=("system", "kind", "component", "valid_from_ns"),
)

RESPONSES = TableSpec(
    "responses",
    "One timed operation of a probe or sampler.",
    columns_of("""
        start_ns      int          when the operation began, UTC ns
        host          text         where it was issued
        target        text         what was probed: a path
        op            text(operations) create, delete, file_read, read, stat, write or write_sync
        request_bytes int          size of the request
        mode          text(modes)  cache or nocache
        scheduled_ns  int?         when it should have begun
        duration_ns   int?         how long it took; null while pending or missed
        system        text         raw name of the system: mount:/path or fsname
        component     text?        the target of the file or folder, where known
        cached        bool?        whether the client cache answered, where known
        status        text(statuses) ok, error, pending or missed
        errno         int?(errno)  error number
        run_id        text?        which run of the probe
    """),
    key=("start_ns", "host", "target", "op", "request_bytes", "mode"),
    time="start_ns",
    order=("system", "op", "request_bytes", "mode", "start_ns"),
    is_long=True,
)

RESPONSE_ROLLUPS = TableSpec(
    "response_rollups",
    "Responses reduced per interval: counts, extremes and a log-histogram that merges.",
    columns_of("""
        start_ns            int          start of the interval, UTC ns
        interval_ns         int          60 s, 10 min or 1 h
        system              text         raw name of the system
        target              text         what was probed
        host                text         where it was issued
        op                  text         operation
        request_bytes       int          size of the request
        mode                text(modes)  cache or nocache
        count               int          operations that ended well and were not answered by the client cache
        cached_count        int          operations that the client cache answered; not in what follows
        error_count         int          operations that failed
        missed_count        int          ticks without an operation, because one before it had not ended
        sum_seconds         float        sum of durations
        min_seconds         float?       shortest
        max_seconds         float?       longest
        histogram           text(histogram) of durations, in bins of ratio 1.02 (quantiles are within 1%), packed; \
            see weather.md
        omitted_sum_seconds float?       sum of what missed and pending operations would have waited
        omitted_max_seconds float?       longest of these waits
        omitted_histogram   text?(histogram) of these waits; null or empty where none was
    """),
    key=("start_ns", "interval_ns", "system", "target", "host", "op", "request_bytes", "mode"),
    time="start_ns",
    revisable=True,
    # Readers want one length of interval, and pass over the rest of the day.
    order=("interval_ns", "system", "op", "start_ns"),
    group_rows=2048,
    keeps_revisions=False,
)

SCANS = TableSpec(
    "scans",
    "One look at a directory tree: by the scanner, or by another tool whose list was read.",
    columns_of("""
        scan_id                  text         identity of the scan
        start_ns                 int          when it began; ages are counted from here
        end_ns                   int?         when it ended
        host                     text?        where it ran
        root                     text         the directory that was scanned
        system                   text         raw name of the file system: mount:/path, or as given
        filesystem_type          text?        as the kernel names it
        complete                 bool         nothing was left out: no directory unreadable, no list cut short
        entry_count              int          names below the root, of any kind
        file_count               int          regular files, each inode once
        file_bytes               int!(not_negative) their sizes together
        capacity_bytes           int!         what they allocate together
        directory_count          int!         directories, the root too
        directory_bytes          int!         sizes of the directories themselves
        symlink_count            int!         symbolic links; none was followed
        other_count              int!         devices, pipes and sockets
        linked_name_count        int!         names of files that have several
        linked_file_count        int!         files that have several names
        largest_file_bytes       int!(not_negative) size of the largest file
        vanished_count           int!         entries that went away between listing and looking
        unreadable_count         int!         directories that could not be read
        not_examined_count       int!         entries that could not be looked at
        skipped_filesystem_count int!         mount points that were not entered
        skipped_snapshot_count   int!         snapshot directories that were not entered
        total_bytes              int!         size of the file system
        free_bytes               int!         free for users
        total_inodes             int!(not_negative) inodes of the file system; null where it makes them as needed
        used_inodes              int!(not_negative) inodes in use in the whole file system
        errors                   text?(object) JSON: errors by name, with examples
        largest                  text?(object) JSON: largest files, directories with most entries and bytes
        cpu_seconds              float?       processor time it took
    """),
    key=("scan_id",),
    time="start_ns",
    revisable=True,
    order=("start_ns", "scan_id"),
)

SCAN_BINS = TableSpec(
    "scan_bins",
    "Histograms of a scan. Bins of sizes and ages are powers of two: [0, 1), [1, 2), [2, 4), ...",
    columns_of(f"""
        scan_id       text         the scan
        start_ns      int          when it began
        root          text         the directory that was scanned
        owner_kind    text         all, user, group or project
        owner         text         user or group number, project name; '' for all
        owner_name    text?        name of the user or group on the host of the scan
        histogram     text         one of {", ".join(HISTOGRAM_NAMES)}
        bin           text         the bin: its number, size and age bin joined by x, or an extension
        low           int?(any)    lower edge (bytes, days, count, characters or levels); null for labels and times \
            to come
        high          int?(any)    upper edge, not in the bin; null for labels
        age_low_days  int?(any)    lower edge of the age, in age_size
        age_high_days int?(any)    upper edge of the age, in age_size
        count         int          files, directories, links or names in the bin
        bytes         int(not_negative) what they weigh: bytes of files, allocated bytes, overhead, or length
    """),
    key=("scan_id", "owner_kind", "owner", "histogram", "bin"),
    time="start_ns",
    order=("scan_id", "owner_kind", "owner", "histogram", "bin"),
)

SCAN_ENTRIES = TableSpec(
    "scan_entries",
    "Every entry of a scan, where somebody asked for the listing.",
    columns_of("""
        scan_id        text         the scan
        start_ns       int          when it began
        path           text         path, or its hash
        escaped        bool?        not UTF-8: its bytes stand as \\xNN, backslashes doubled
        kind           text?        directory, file, other or symlink
        device         int?(any)    device number
        inode          int?(any)    inode number, its 64 bits read as signed
        size_bytes     int?(not_negative) size
        capacity_bytes int?         allocated
        mtime_ns       int?(any)    last modification
        atime_ns       int?(any)    last access
        ctime_ns       int?(any)    last change of the inode
        uid            int?(not_negative) user
        gid            int?(not_negative) group
        link_count     int?         hard links
        osts           text?(layout) OST numbers of its stripes, comma-separated; parts of its layout apart by ;
    """),
    key=("scan_id", "path"),
    time="start_ns",
    order=("scan_id", "path"),
)

INGESTS = TableSpec(
    "ingests",
    "One row per file digest: committed last, so a file that is here is in.",
    columns_of("""
        digest           text         content digest of the file (with the context that changes its meaning)
        path             text         where it was read from
        bytes            int(not_negative) size of the file
        status           text         ok, partial or quarantined
        reason           text?        why not ok: the error's name
        message          text?        what is wrong with the file, or with some of its rows
        rows             text(object) JSON: rows read per table, those that were there already too
        refused_count    int?         rows left out, because they cannot be
        flagged_count    int?         rows kept, with a complaint
        rows_ingest_ids  text?        comma-separated: the ingest_id of its rows, and of those that came in with them
        ingested_ns      int          when
        software_version text         by which version
    """),
    key=("digest",),
    time="ingested_ns",
    revisable=True,
    order=("ingested_ns",),
)

TABLES: dict[str, TableSpec] = {
    table.name: table
    for table in (
        *(APPLICATIONS, BENCHMARKS, COMPONENTS, EVENTS, FILES, INGESTS, JOB_IO, JOB_OPERATIONS, JOBS),
        *(RESPONSE_ROLLUPS, RESPONSES, SCAN_BINS, SCAN_ENTRIES, SCANS, SERIES, VERDICTS),
    )
}
