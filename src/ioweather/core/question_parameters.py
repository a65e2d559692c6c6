"""Parameters that several questions share."""

from __future__ import annotations

from typing import Final

from ioweather.core.contracts import Param

JOB: Final = Param("job", "A Darshan log, or the id of a job in the lake.", required=True, metavar="LOG|JOBID")
_HELP = "Processes per node, where accounting has no nodes."
PROCESSES_PER_NODE: Final = Param("processes_per_node", _HELP, "int", least=1, option="ppn", metavar="N")
PATHS: Final = Param(
    "paths", "What to do with file paths and the command line.", default="keep", choices=("keep", "hash", "drop")
)
UID: Final = Param("uid", "Of several jobs with this id, the one of this user.", "int", metavar="N")
FILESYSTEM_SAMPLED: Final = Param("filesystem", "On this file system (default: the one with the most samples).")
MODE: Final = Param("mode", "Use samples of this mode.", choices=("cache", "nocache"))
