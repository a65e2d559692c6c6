"""Sends a report by mail: its sheets as text and as HTML, with the file itself attached."""

from __future__ import annotations

import re
import smtplib
import socket
import textwrap
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Final

from ioweather.core.errors import UsageError
from ioweather.core.results import Block, FactGroup, Item, Items
from ioweather.core.units import format_time_ns
from ioweather.ui.cli.terminal import render_text
from ioweather.ui.report.sheets import Sheet
from ioweather.ui.report.write import Material, sheet_html

_WIDTH: Final = 76
_PORT: Final = 25
_PATIENCE_SECONDS: Final = 60
_ADDRESS: Final = re.compile(r"[^@\s<>,;\"\x00-\x1f]+@[^@\s<>,;\"\x00-\x1f]+")
_STYLE: Final = """
body { font: 15px/1.5 sans-serif; max-width: 46em; margin: 1em; } table { border-collapse: collapse; }
td, th { padding: 2px 10px 2px 0; text-align: left; } ul.tiles { padding: 0; } ul.tiles li { list-style: none; }
.number { font-size: 1.4em; } .quiet, .kicker { color: #666; }
"""


def mail_report(
    material: Material, attached: Path, to: Sequence[str], *, sender: str | None = None, relay: str = "localhost"
) -> None:
    """Send the sheets of a report, with the file `attached`, to the addresses.

    `relay` is HOST or HOST:PORT of an SMTP server.
    Raises UsageError if an address is not valid, or if the mail is not accepted.
    """
    sender = sender or f"ioweather@{socket.getfqdn()}"
    for address in (*to, sender):
        if not _ADDRESS.fullmatch(address):
            raise UsageError(f"{address!r} is not a mail address.")
    message = make_message(material, attached, to, sender)
    host, _, port = relay.partition(":")
    if not host or (port and not port.isdigit()):
        raise UsageError(f"--relay {relay}: expected HOST or HOST:PORT.")
    try:
        with smtplib.SMTP(host, int(port or _PORT), timeout=_PATIENCE_SECONDS) as server:
            if server.has_extn("starttls"):
                server.starttls()
            refused = server.send_message(message)
    except (OSError, smtplib.SMTPException) as error:
        hint = "Specify another SMTP server: --relay HOST[:PORT]."
        raise UsageError(f"{relay} did not accept the mail: {error}.", hint=hint) from None
    if refused:
        raise UsageError(f"{relay} refused {', '.join(refused)}; the mail was sent to the others.")


def make_message(material: Material, attached: Path, to: Sequence[str], sender: str) -> EmailMessage:
    """Return the mail: plain text, the same as HTML without pictures, and the report."""
    message = EmailMessage(policy=SMTP)
    title = " ".join(material.sheets[0].title.split()) if material.sheets else "Storage report"
    low, high = material.within_ns
    message["Subject"] = f"{title}, {format_time_ns(low)[:10]} to {format_time_ns(high)[:10]}"
    message["From"], message["To"] = sender, ", ".join(to)
    # Programs that answer mail by themselves leave such mail alone (RFC 3834).
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(map(_sheet_text, material.sheets)))
    parts = [sheet_html(sheet, number, material, drawn=False) for number, sheet in enumerate(material.sheets)]
    page = f"<!doctype html><html><head><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    message.add_alternative(page, subtype="html")
    message.add_attachment(attached.read_text("utf-8"), subtype="html", filename=attached.name, cte="base64")
    return message


def _sheet_text(sheet: Sheet) -> str:
    """Return a sheet as plain text: title, sentences, tiles, actions and tables. Omitted rows are in the attachment."""
    tiles = FactGroup("tiles", "", sheet.tiles)
    actions = Items("What to do", tuple(Item("", action) for action in sheet.actions), numbered=True)
    blocks: list[Block] = [*([tiles] if sheet.tiles else []), *([actions] if sheet.actions else []), *sheet.tables]
    sentences = [line for sentence in sheet.sentences for line in ("", *textwrap.wrap(sentence, _WIDTH))]
    head = [sheet.title, "=" * min(len(sheet.title), _WIDTH), *sentences]
    return "\n".join([*head, render_text(blocks, _WIDTH).replace("(--csv or --json)", "(attached report)")])
