"""A page as PDF, by the browser that is installed: what it prints is what is seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from ioweather.core.errors import UsageError

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE_SECONDS: Final = 120


def pdf_printer(out: Path) -> str:
    """The browser, found before the work begins."""
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise UsageError(
            f"--out {out}: no Chromium is installed, which would print it.",
            hint="Write .html and print it from a browser.",
        )
    return found


def print_pdf(browser: str, page: str, out: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ioweather-pdf-") as folder:
        source, made = Path(folder) / "report.html", Path(folder) / "report.pdf"
        source.write_text(page, encoding="utf-8")
        line = [browser, "--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                f"--user-data-dir={folder}/profile", "--no-pdf-header-footer", f"--print-to-pdf={made}"]  # fmt: skip
        # Chromium refuses to run as root with its sandbox; the page holds no script and may load nothing.
        line += ["--no-sandbox"] if os.geteuid() == 0 else []
        try:
            subprocess.run([*line, source.as_uri()], check=True, capture_output=True, timeout=_PATIENCE_SECONDS)
            data = made.read_bytes()
        except (subprocess.SubprocessError, OSError) as error:
            raise UsageError(
                f"--out {out}: {Path(browser).name} did not print it ({type(error).__name__}).",
                hint="Write .html and print it from a browser.",
            ) from None
    out.write_bytes(data)
