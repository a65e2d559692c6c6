"""First screens of the answers about storage: blocks made from their results and facts."""

from __future__ import annotations

from collections.abc import Iterator

from ioweather.core.contracts import Params
from ioweather.core.outcomes import WhoOutcome
from ioweather.core.results import Answer, Block, Next, ResultTable, largest


def who_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Jobs that cost others time; without any, who does most I/O."""
    result = answer.result
    assert isinstance(result, WhoOutcome)
    did = [f.text.partition(": ")[2] for f in answer.findings if f.name.startswith("did_")]
    rows = []
    for number, each in enumerate(result.culprits[:5]):
        doing = did[number].partition(" Ask ")[0].removeprefix("It ").rstrip(".") if number < len(did) else ""
        doing, _, where = doing.partition(": ")
        doing = ", ".join(filter(None, (doing, where.split(", ")[0])))
        name = str(each.job_id) if each.job_id is not None else each.program or "another job"
        rows.append(
            (
                name,
                each.user or "",
                each.seconds,
                None if each.probability is None else round(each.probability, 2),
                doing,
            )
        )
    if rows:
        columns = "job [text]; user [text]; cost: cost others [seconds]; sure [ratio]; doing [text]"
        yield ResultTable.of("culprits", columns, rows)
    else:
        for name in ("talkers", "beside"):
            yield from (largest(group, 5) for group in answer.facts if group.name == name)
    yield from (largest(group, 3) for group in answer.facts if group.name == "storms")
    yield from (f for f in answer.findings if f.name == "known" or (result.about == "run" and f.name == "tell_1"))
    first = next((each.job_id for each in result.culprits if each.job_id is not None), None)
    yield Next(f"ioweather who --without {first}" if first is not None else "ioweather health")
