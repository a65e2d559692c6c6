"""Which exhibit stands on which page of the dashboard. Every exhibit has one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ioweather.core.papers import exhibits


@dataclass(frozen=True)
class Topic:
    """A page of exhibits: `prefixes` name papers, or single exhibits where they end in no dot. `parts` stand above
    them: a heading and the address of the fragment. `last` come after the others: checks of the method itself."""

    slug: str
    title: str
    lead: str
    prefixes: tuple[str, ...]
    parts: tuple[tuple[str, str], ...] = ()
    last: tuple[str, ...] = ()


TOPICS: Final = (
    Topic(
        "climate", "Climate", "What the whole facility does: volume, bursts, hours and days, phases, balance.",
        ("car11.fig6", "car11.fig7", "car11.volume", "pat19."),
    ),
    Topic(
        "applications", "Applications", "What jobs and projects do, and what the system does to them.",
        ("car11.", "mad17."), (("Projects", "/fragments/projects"),), last=("car11.table1",),
    ),
    Topic("responses", "Response times", "How long operations take, and how far the tail reaches.",
          ("don15.", "kun19.")),
    Topic("contents", "Contents", "What lies on the file systems: sizes, ages, growth.",
          ("car11.fig8", "car11.table3", "car11.overwrite")),
    Topic("health", "Health", "Servers, targets and episodes; what the lake holds and what it refused.",
          ("kun19.episodes", "pat19.fig10", "pat19.fig15", "pat19.fig16"),
          (("Agents", "/fragments/agents"), ("In the lake", "/fragments/lake"), ("Quality", "/fragments/quality"),
           ("Sick components", "/fragments/events?kind=component_health"), ("Events", "/fragments/events"))),
)  # fmt: skip


def exhibits_of(topic: Topic) -> tuple[str, ...]:
    """The exhibits of a page, in the order of their papers."""
    found = [entry.id for entry in exhibits() if topic_of(entry.id) is topic]
    return tuple(sorted(found, key=lambda exhibit_id: exhibit_id in topic.last))


def topic_of(exhibit_id: str) -> Topic:
    """A page that names the exhibit comes before one that names its paper."""
    named = [topic for topic in TOPICS if exhibit_id in topic.prefixes]
    paper = exhibit_id.partition(".")[0] + "."
    return (named or [topic for topic in TOPICS if paper in topic.prefixes])[0]
