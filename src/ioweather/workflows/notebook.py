"""`ioweather.show`: an exhibit as a value, which draws itself in a notebook."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

from ioweather.core.results import Exhibit
from ioweather.store.lake import open_lake
from ioweather.workflows.analyse import make_exhibits


class ShownExhibit(Exhibit):
    """An Exhibit that notebooks show as a page; its data are the exhibit's own."""

    def _repr_html_(self) -> str:
        from ioweather.figures import exhibit_fragment

        return exhibit_fragment(self)


def show(exhibit_id: str, lake: str | os.PathLike[str] | None = None, **params: Any) -> ShownExhibit:
    """The exhibit made from the lake (default: the user's own). Keyword arguments are the study's parameters."""
    typed = {name: str(value) for name, value in params.items()}
    (made,) = make_exhibits(open_lake(lake), [exhibit_id], params=typed)
    return ShownExhibit(**{field.name: getattr(made, field.name) for field in fields(Exhibit)})
