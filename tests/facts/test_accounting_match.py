"""Logs and scheduler jobs, against the rule spelled out one log at a time."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.frames import Frame
from ioweather.core.tables import APPLICATIONS, JOBS
from ioweather.facts.accounting import match_jobs, state_counts

NS = 1_000_000_000
T = 1_700_000_000 * NS


def logs(*rows: tuple[int, int, float]) -> Frame:
    """(job id, uid, start in seconds)"""
    return APPLICATIONS.frame(
        log_digest=[f"log{i}" for i in range(len(rows))], job_id=[r[0] for r in rows], uid=[r[1] for r in rows],
        nprocs=[4] * len(rows), start_ns=[T + round(r[2] * NS) for r in rows],
        end_ns=[T + round(r[2] * NS) + NS for r in rows],
        log_version=["3.41"] * len(rows), partial_modules=[""] * len(rows), modules=["POSIX"] * len(rows),
    )  # fmt: skip


def jobs(*rows: dict[str, Any]) -> Frame:
    base = {"cluster": "c", "raw_job_id": 1, "step": "", "restart": 0, "job_id": "1", "uid": 7, "state": "COMPLETED",
            "start": 0, "end": 100, "node_count": 2, "account": "m1"}  # fmt: skip
    full = [base | row for row in rows]

    def ns(value: float | None) -> int | None:
        return None if value is None else T + round(value * NS)

    return JOBS.frame(
        **{name: [row[name] for row in full] for name in base if name not in ("start", "end")},
        submit_ns=[T] * len(full), start_ns=[ns(row["start"]) for row in full], end_ns=[ns(row["end"]) for row in full],
    )  # fmt: skip


def states(applications: Frame, accounting: Frame | None) -> list[str | None]:
    return match_jobs(applications, accounting).text("state").tolist()


def test_each_state() -> None:
    accounting = jobs({}, {"raw_job_id": 2, "cluster": "x"}, {"raw_job_id": 2, "cluster": "y"})
    applications = logs((1, 7, 10), (5, 7, 10), (1, 7, 161), (1, 8, 10), (2, 7, 10))
    matches = match_jobs(applications, accounting)
    assert matches.text("state").tolist() == ["matched", "no_accounting", "outside_window", "uid_differs", "ambiguous"]
    assert matches.array("node_count").tolist() == [2, None, None, None, None]
    assert matches.text("account").tolist() == ["m1", None, None, None, None]
    assert state_counts(matches) == {"no_accounting": 1, "outside_window": 1, "uid_differs": 1, "ambiguous": 1}


def test_without_accounting_nothing_matches() -> None:
    assert states(logs((1, 7, 0)), None) == ["no_accounting"]
    assert states(logs((1, 7, 0)), jobs()) == ["no_accounting"]
    assert states(logs(), jobs({})) == []


def test_requeues_are_told_apart_by_time() -> None:
    accounting = jobs({"end": 100, "node_count": 2}, {"restart": 1, "start": 110, "end": 300, "node_count": 3})
    matches = match_jobs(logs((1, 7, 95), (1, 7, 112), (1, 7, 105)), accounting)
    assert matches.text("state").tolist() == ["matched", "matched", "ambiguous"]
    assert matches.array("node_count").tolist() == [2, 3, None]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[tuple[int, int, float]], list[dict[str, Any]]]:
    applications = draw(
        st.lists(
            st.tuples(st.integers(1, 3), st.integers(7, 8), st.sampled_from([-70, 0, 50, 105, 130, 400])), max_size=5
        )
    )
    accounting = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "raw_job_id": st.integers(1, 3),
                    "cluster": st.sampled_from("cd"),
                    "restart": st.integers(0, 2),
                    "step": st.sampled_from(["", "", "0"]),
                    "uid": st.sampled_from([None, 7, 8]),
                    "start": st.sampled_from([None, 0, 110]),
                    "end": st.sampled_from([None, 100, 300]),
                }
            ),
            max_size=5,
            unique_by=lambda row: (row["raw_job_id"], row["cluster"], row["restart"], row["step"]),
        )
    )
    return applications, accounting


def directly(log: tuple[int, int, float], accounting: list[dict[str, Any]]) -> tuple[str, int | None]:
    same_id = [i for i, job in enumerate(accounting) if job["raw_job_id"] == log[0] and job["step"] == ""]
    if not same_id:
        return "no_accounting", None

    def inside(job: dict[str, Any], grace: float) -> bool:
        return (
            job["start"] is not None
            and job["start"] - grace <= log[2]
            and (job["end"] is None or log[2] <= job["end"] + grace)
        )

    in_time = [i for i in same_id if inside(accounting[i], 60)]
    if not in_time:
        return "outside_window", None
    fitting = [i for i in in_time if accounting[i]["uid"] in (None, log[1])]
    if not fitting:
        return "uid_differs", None
    left = [
        i
        for i in fitting
        if inside(accounting[i], 0)
        or not any(inside(accounting[k], 0) and accounting[k]["cluster"] == accounting[i]["cluster"] for k in fitting)
    ]
    return ("matched", left[0]) if len(left) == 1 else ("ambiguous", None)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_agrees_with_the_rule_spelled_out(case: tuple[list[tuple[int, int, float]], list[dict[str, Any]]]) -> None:
    applications, accounting = case
    matches = match_jobs(logs(*applications), jobs(*accounting))
    expected = [directly(log, accounting) for log in applications]
    assert list(zip(matches.text("state").tolist(), matches.array("job_row").tolist(), strict=True)) == expected
