"""systemd units for this installation: those of deploy/systemd with its program, lake and folders."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ioweather.core.errors import UsageError
from ioweather.core.safe_files import is_inside
from ioweather.core.units import names_of

# In the wheel they are beside this module, in a working copy in deploy.
_PLACES: Final = (Path(__file__).with_name("systemd"), Path(__file__).parents[3] / "deploy" / "systemd")
# What a unit of an ordinary user may say: others of the sandbox need the rights of the system's manager.
_USER_KEYS: Final = names_of("""
    Description After Wants Type ExecStart SuccessExitStatus Restart RestartSec KillMode TimeoutStopSec TimeoutStartSec
    Nice UMask NoNewPrivileges WantedBy OnBootSec OnUnitInactiveSec AccuracySec OnCalendar RandomizedDelaySec Persistent
""")


@dataclass(frozen=True)
class Site:
    """The places of an installation. `probes`: directories that the agent writes to."""

    program: Path
    lake: Path
    spool: Path
    reports: Path
    backup: Path
    probes: Sequence[str] = ()
    user: str | None = None  # None: units of an ordinary user


def unit_texts(site: Site) -> Mapping[str, str]:
    """Return the units by file name."""
    folder = next((place for place in _PLACES if place.is_dir()), None)
    if folder is None:
        raise UsageError("This installation has no units.")
    found = [path for path in sorted(folder.iterdir()) if path.suffix in (".service", ".timer")]
    return {path.name: _adapted(path.read_text(encoding="utf-8"), site) for path in found}


def _adapted(text: str, site: Site) -> str:
    probes = " ".join(f"-{path}" for path in site.probes)
    replaced = {
        "/opt/ioweather/bin/ioweather": site.program,
        "/srv/weather-reports": site.reports,
        "/srv/weather": site.lake,
        "/backup/weather": site.backup,
        "-/scratch/.weather": probes,
        "/var/lib/ioweather/spool": site.spool,
    }
    for path in (*replaced.values(), *site.probes):
        if re.search(r"[\s%$\"'\\]", str(path)) and path != probes:
            raise UsageError(f"{path} has a character that systemd would change.", hint="Choose another path.")
    pattern = re.compile("|".join(map(re.escape, replaced)))
    text = pattern.sub(lambda match: str(replaced[match[0]]), text)
    if site.user is not None:
        if any(is_inside(str(place), home) for place in (site.program, site.lake) for home in ("/home", "/root")):
            text = re.sub(r"^ProtectHome=.*$", "ProtectHome=read-only", text, flags=re.MULTILINE)
        return re.sub(r"^(User|Group)=.*$", rf"\1={site.user}", text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if not line or line[0] in "#[" or line.partition("=")[0] in _USER_KEYS]
    text = "\n".join([*lines, ""]).replace("WantedBy=multi-user.target", "WantedBy=default.target")
    # The system's manager gives the agent its spool; here the command line says it.
    return text.replace("agent run --lake", f"agent run --spool {site.spool} --lake")


def write_units(out: Path, site: Site) -> list[Path]:
    """Write the units, and make the folders that they write to; return what was made."""
    made = []
    try:
        # The system's manager makes the spool itself (StateDirectory).
        for folder in (site.lake, site.reports, site.backup, *([] if site.user else [site.spool])):
            if not folder.is_dir():
                folder.mkdir(parents=True, mode=0o750)
                made.append(folder)
                if site.user:
                    shutil.chown(folder, site.user, site.user)
        out.mkdir(parents=True, exist_ok=True)
        for name, text in unit_texts(site).items():
            (out / name).write_text(text, encoding="utf-8")
            made.append(out / name)
    except LookupError:
        hint = f"useradd --system --user-group --home-dir /var/lib/ioweather {site.user}"
        raise UsageError(f"There is no user {site.user} here.", hint=hint) from None
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}.") from None
    return made
