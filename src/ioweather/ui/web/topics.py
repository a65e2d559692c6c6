"""The dashboard's pages of exhibits. Every exhibit has one place: the page that its paper's file names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ioweather.core.papers import exhibit_entry, exhibits


@dataclass(frozen=True)
class Topic:
    """A page of exhibits. `parts` stand above them: a heading and the address of the fragment. `last` come after the
    others: checks of the method itself."""

    slug: str
    title: str
    lead: str
    parts: tuple[tuple[str, str], ...] = ()
    last: tuple[str, ...] = ()


TOPICS: Final = (
    Topic("climate", "Climate", "What the whole facility does: volume, bursts, hours and days, phases, balance."),
    Topic(
        "applications",
        "Applications",
        "What jobs and projects do, and what the system does to them.",
        (("Projects", "/fragments/projects"),),
        last=("car11.table1",),
    ),
    Topic("responses", "Response times", "How long operations take, and how far the tail reaches."),
    Topic("contents", "Contents", "What lies on the file systems: sizes, ages, growth."),
    Topic(
        "health",
        "Health",
        "Servers, targets and episodes; what the lake holds and what it refused.",
        (
            ("Unhealthy components", "/fragments/unhealthy"),
            ("Agents", "/fragments/agents"),
            ("In the lake", "/fragments/lake"),
            ("Quality", "/fragments/quality"),
        ),
    ),
)


def exhibits_of(topic: Topic) -> tuple[str, ...]:
    """The exhibits of a page, in the order of their papers."""
    found = [entry.id for entry in exhibits() if entry.page == topic.slug]
    return tuple(sorted(found, key=lambda exhibit_id: exhibit_id in topic.last))


def topic_of(exhibit_id: str) -> Topic:
    page = exhibit_entry(exhibit_id).page
    return next(topic for topic in TOPICS if topic.slug == page)
