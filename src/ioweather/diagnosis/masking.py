"""What a person may see of an answer made of everybody's rows: the answer is the same for all, the names are not."""

from __future__ import annotations

from collections.abc import Sequence

from ioweather.diagnosis.blame import Party
from ioweather.job_io.view import JobView
from ioweather.lake.snapshot import Snapshot, own_uids


def judged_on(snapshot: Snapshot, view: JobView) -> Snapshot:
    """The rows that a run is judged on: everybody's. Runs are listed beside it that have its user, so a log that says
    it is another's, which a person may send, is judged on the person's own rows."""
    if snapshot.owner is None:
        return snapshot
    theirs = set(view.applications.ints("uid").tolist())
    return snapshot.whole if theirs <= own_uids(snapshot.bare) else snapshot


def hide(parties: Sequence[Party], snapshot: Snapshot) -> tuple[Party, ...]:
    """As the one who asks may see them: of others only that there is another job."""
    owner = snapshot.owner
    if owner is None:
        return tuple(parties)
    own = own_uids(snapshot.bare)
    return tuple(
        party
        if party.user == owner.user or (party.user is None and party.uid in own)
        else Party(f"hidden {number}", hidden=True)
        for number, party in enumerate(parties)
    )
