"""The one-file agent: an executable zip file, for Python 3.9 and newer and nothing else.

Code that goes into it (this package and the part of `core` in `_CORE`) is written for Python 3.9.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ioweather.agent.command import EMBEDDED_SETTINGS
from ioweather.agent.settings import settings_from
from ioweather.core.errors import UsageError
from ioweather.core.facility import parse_facility
from ioweather.core.words import names_of

_PACKAGE: Final = Path(__file__).parent.parent
_CORE: Final = names_of("__init__ clock errors facility foreign_text safe_files units words")
_MAIN: Final = "import sys\n\nfrom ioweather.agent.command import main\n\nsys.exit(main())\n"
# The same files give the same bytes: sites compare digests.
_STAMP: Final = (2020, 1, 1, 0, 0, 0)


def write_bundle(out: Path, facility: Mapping[str, Any] | None = None) -> None:
    """Write the archive as an executable file, with the settings of a facility file inside if they are given."""
    sources = [*(_PACKAGE / "agent").glob("*.py"), *(_PACKAGE / "core" / "counters").glob("*.py")]
    sources += [_PACKAGE / "core" / f"{name}.py" for name in _CORE] + [_PACKAGE / "_version.py"]
    files = {f"ioweather/{source.relative_to(_PACKAGE).as_posix()}": source.read_bytes() for source in sources}
    files |= {"__main__.py": _MAIN.encode(), "ioweather/__init__.py": b'"""The agent of ioweather."""\n'}
    if facility is not None:
        settings_from(parse_facility(facility).sections.get("collect", {}))  # raises if the agent could not use it
        files[f"ioweather/agent/{EMBEDDED_SETTINGS}"] = json.dumps(facility, default=str).encode()
    made = io.BytesIO(b"#!/usr/bin/env python3\n")
    made.seek(0, io.SEEK_END)
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as archive:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(path, _STAMP)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100755 << 16
            archive.writestr(entry, data)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(made.getvalue())
        out.chmod(0o755)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}.") from None
