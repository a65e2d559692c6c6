"""Slurm job ids as users see them: 22, 22_1, 22_[3-8], 43+0, and the step behind the dot."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ioweather.sources.plain_values import whole_number

_JOB = re.compile(r"([0-9]{1,18})(?:_([0-9]{1,18}|\[[^\]]+\]))?(?:\+([0-9]{1,18}))?")


@dataclass(frozen=True)
class JobIdentity:
    """`job_id` is the text without the step; `step` is '' for the allocation."""

    job_id: str
    step: str
    array_job_id: int | None
    het_offset: int | None

    @property
    def plain(self) -> int | None:
        """The number, where the id is no more than one: it is then the raw id too."""
        return whole_number(self.job_id)


def parse_identity(text: str) -> JobIdentity | None:
    job, _, step = text.strip().partition(".")
    match = _JOB.fullmatch(job)
    if match is None:
        return None
    return JobIdentity(
        job_id=job,
        step=step,
        array_job_id=int(match[1]) if match[2] else None,
        het_offset=int(match[3]) if match[3] else None,
    )
