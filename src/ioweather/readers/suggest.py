"""Files that no source reads, but people bring: what they are, and the command that makes a readable one."""

from __future__ import annotations

import re

from ioweather.readers.text_files import plain_head

_SACCT = (
    "SLURM_TIME_FORMAT=%s sacct -a -P --delimiter=$'\\x1f' "
    "--format=JobID,JobIDRaw,Cluster,UID,User,Account,JobName,State,Submit,Start,End,NNodes,NCPUS,NodeList > jobs.txt"
)
_SADF = "sadf -j FILE -- -d -b -u > file.json, with sar's daily file (/var/log/sysstat/saDD)"


_COLLECTL = "collectl -p FILE -scdD -P -oU > collectl.txt"
_DARSHAN = "darshan-parser JOB.darshan > job.txt"
_IOSTAT = "S_TIME_FORMAT=ISO iostat -xtky 60"
# A pattern at the beginning of any line, what such a text is, and what to run instead.
_TEXTS = (
    (r">>> \d{9,10}[.\d]{0,9} <<<", "a raw file of collectl", _COLLECTL),
    (r"# Collectl:", "a file of collectl without disks or CPUs", _COLLECTL),
    (r" {0,20}JobID {1,80}\S", "sacct as people read it, with columns cut to their width", _SACCT),
    (r" {0,20}JOBID {1,20}(?:PARTITION|USER)", "a list of waiting and running jobs, not accounting", _SACCT),
    (r"JobId=\d{1,18} ", "scontrol's description of jobs, not accounting", _SACCT),
    (r"qname {3,20}\S", "what qacct prints", "ioweather ingest $SGE_ROOT/default/common/accounting"),
    (r"Job Id: ", "what qstat -f prints", "ioweather ingest PBS_HOME/server_priv/accounting/YYYYMMDD"),
    (r"Job <\d{1,18}", "what bhist or bjobs -l prints", "ioweather ingest LSB_SHAREDIR/CLUSTER/logdir/lsb.acct"),
    (r"procs -{3,20}memory", "what vmstat prints: it has no devices", _IOSTAT),
    (r'"(?:pcp )?[Dd](?:stat|ool) ', "what dstat or dool writes", _IOSTAT),
    (r"[Ll]inux \S{1,99} \(\S{1,255}\)", "text of sar or of another program of sysstat", _SADF),
    (r"# DXT, file_id:", "a trace of darshan-dxt-parser", _DARSHAN),
    (r"total_[A-Z]{1,9}_\w{1,60}: ", "sums of darshan-parser, not its records", _DARSHAN),
    (
        r"(?i:create table) ",
        "the text of a database",
        "load it, then name the server: ioweather ingest mysql://USER@HOST/filesystem_NAME",
    ),
)
_BYTES = (
    (b"PAR1", "a Parquet file", "ioweather ingest --as TABLE --select map.sql FILE (docs/how-to/any-csv.md)"),
    (b"\x96\xd5", "a daily file of sar", _SADF),  # sa.h: SYSSTAT_MAGIC, in either byte order
    (b"\xd5\x96", "a daily file of sar", _SADF),
    (b"PK\x03\x04", "a zip archive", "unzip it, then ingest its folder"),
    (
        b"\x89HDF\r\n\x1a\n",
        "an HDF5 file, but neither pyLMT's nor TOKIO's",
        "ioweather ingest daily .h5lmt files of pyLMT or TOKIO time series",
    ),
    (b"\xfd7zXZ\x00", "compressed by xz", "xz -d FILE"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "zstd -d FILE"),
)
_TAR_AT = 257


def nearest(head: bytes) -> tuple[str, str] | None:
    """(what it is, what to run instead), where that is known."""
    for magic, what, remedy in _BYTES:
        if head.startswith(magic):
            return what, remedy
    text = plain_head(head)
    if text[_TAR_AT : _TAR_AT + 5] == "ustar":
        return "a tar archive", "unpack it, then ingest its folder"
    found = ((what, remedy) for sign, what, remedy in _TEXTS if re.search(f"^{sign}", text, re.MULTILINE))
    return next(found, None)
