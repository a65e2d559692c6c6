"""The one-file agent: an executable zip file, for Python 3.9 and newer and nothing else.

Code that goes into it (this package and the part of `core` in `_CORE`) is written for Python 3.9.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ioweather._version import __version__
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


def bundle_bytes(facility: Mapping[str, Any] | None = None, interpreter: str = "/usr/bin/env python3") -> bytes:
    """Return the archive, with the settings of a facility file inside if they are given."""
    sources = [*(_PACKAGE / "agent").glob("*.py"), *(_PACKAGE / "core" / "counters").glob("*.py")]
    sources += [_PACKAGE / "core" / f"{name}.py" for name in _CORE] + [_PACKAGE / "_version.py"]
    files = {f"ioweather/{source.relative_to(_PACKAGE).as_posix()}": source.read_bytes() for source in sources}
    files |= {"__main__.py": _MAIN.encode(), "ioweather/__init__.py": b'"""The agent of ioweather."""\n'}
    if facility is not None:
        settings_from(parse_facility(facility).sections.get("collect", {}))  # raises if the agent could not use it
        files[f"ioweather/agent/{EMBEDDED_SETTINGS}"] = json.dumps(facility, default=str).encode()
    return f"#!{interpreter}\n".encode() + _zipped(files)


def write_bundle(out: Path, facility: Mapping[str, Any] | None = None) -> None:
    """Write the archive as an executable file."""
    _write(out, bundle_bytes(facility), 0o755)


def write_wheel(folder: Path, facility: Mapping[str, Any] | None = None) -> Path:
    """Write a wheel without requirements that installs the archive as the command `ioweather-agent`."""
    name = f"ioweather_agent-{__version__}"
    # pip replaces `#!python` by its own interpreter.
    files = {f"{name}.data/scripts/ioweather-agent": bundle_bytes(facility, "python")}
    about = f"Metadata-Version: 2.1\nName: ioweather-agent\nVersion: {__version__}\nRequires-Python: >=3.9\n"
    files[f"{name}.dist-info/METADATA"] = (about + "Summary: The agent of ioweather\n").encode()
    kind = "Wheel-Version: 1.0\nGenerator: ioweather\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{name}.dist-info/WHEEL"] = kind.encode()
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in files.items()]
    record = f"{name}.dist-info/RECORD"
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    out = folder / f"{name}-py3-none-any.whl"
    _write(out, _zipped(files), 0o644)
    return out


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _zipped(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(path, _STAMP)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100755 << 16
            archive.writestr(entry, data)
    return made.getvalue()


def _write(out: Path, data: bytes, mode: int) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(data)
        out.chmod(mode)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}.") from None
