"""A page of exhibits for each subject, and above them what its topic has besides: advice on a transfer, projects."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from ioweather.core.errors import UsageError
from ioweather.core.units import parse_size
from ioweather.ui.web.parts import answer_part, kept
from ioweather.ui.web.shared_answers import available
from ioweather.ui.web.shell import Html, page, part
from ioweather.ui.web.topics import TOPICS, Topic, exhibits_of
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)


def _subject_page(topic: Topic, view: View, request: Request) -> Html:
    found, error = available(view)
    known = {item.id: item for item in found}
    mine = [known[exhibit_id] for exhibit_id in exhibits_of(topic) if exhibit_id in known]
    query = request.query_params
    return page(
        "subject.html",
        view,
        f"/{topic.slug}",
        topic.title,
        topic=topic,
        error=error,
        size=query.get("size", ""),
        op=query.get("op", ""),
        ready=[item for item in mine if item.ready],
        missing=[item for item in mine if not item.ready],
    )


def _add_subject(topic: Topic) -> None:
    def endpoint(view: OwnView, request: Request) -> Html:
        return _subject_page(topic, view, request)

    router.add_api_route(f"/{topic.slug}", endpoint, methods=["GET"], name=topic.slug)


for _topic in TOPICS:
    _add_subject(_topic)


@router.get("/fragments/transfer")
def transfer(
    view: PublicView,
    size: Annotated[str, Query(max_length=40)] = "64GiB",
    op: Annotated[str, Query(pattern="^(read|write)$")] = "write",
) -> Html:
    """Over how many targets to stripe a file of this size, and how long moving it takes."""

    def make() -> str:
        try:
            amount = parse_size(size)
        except ValueError as error:
            raise UsageError(str(error), hint="Write a size as 64GiB or 1TB.") from None
        answers = [view.ask(name, {"size": str(amount), "op": op}) for name in ("stripe", "predict")]
        with view.facilities.drawing():
            sections = [answer_part(answer, view.drawn(), second=True) for answer in answers]
        return part("answers.html", sections=sections, all_later=True)

    return kept(view, ("transfer", size, op), make)
