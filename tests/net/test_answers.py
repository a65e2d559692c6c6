"""Every question as a command, a route and a function gives what was recorded, and all three the same."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import asdict

import pytest
from fastapi.testclient import TestClient
from recorded import RECORDING, compare, differences, found, recorded

import ioweather
from ioweather.ui.web.app import LOOPBACK, create_app

# As they are typed. JOB0 is the first job of the lake, LOG0 its first log, and so on.
COMMANDS = """
claims
compare JOB2 JOB9
compare LOG2 LOG5
events
events --kind component_health
events --from 2026-03-02 --to 2026-03-03
exhibits
facility check
forecast
health
ingest --list-sources
lake
lake quarantine
predict 10GiB
predict 1GiB
project fusion
relieve scratch-OST0003
runs
runs --order slowest
runs --order largest
runs --order longest
runs --from 2026-03-02 --to 2026-03-03
runs --user user001
stripe 64GiB
storage
storage scratch-OST0001
storage scratch-OST0007
storage oss001
storage scratch-MDT0000
triage
what-if --without JOB5
what-if --without JOB30
who
who --from 2026-03-02 --to 2026-03-03
who --from 2026-03-02 --to 2026-03-03 --by user
who JOB5
who JOB40
""".strip().splitlines()
COMMANDS += [f"job JOB{n}" for n in (0, 3, 7, 12, 20, 33, 47, 60)]
COMMANDS += [f"why JOB{n}" for n in (0, 3, 7, 12, 20, 33, 47, 60, 71, 84)]
COMMANDS += [f"{question} LOG{n}" for question in ("job", "why") for n in (0, 9, 25, 50)]
WITHOUT_LAKE = ("ingest",)
# A route, and the command that gives the same.
ROUTES = {
    "storage": "storage",
    "storage?where=scratch-OST0001": "storage scratch-OST0001",
    "health": "health",
    "events": "events",
    "runs": "runs",
    "runs?order=slowest": "runs --order slowest",
    "triage": "triage",
    "forecast": "forecast",
    "who": "who",
    "claims": "claims",
    "why?job=JOB3": "why JOB3",
    "why?job=JOB12": "why JOB12",
    "why?job=JOB47": "why JOB47",
    "job?job=JOB3": "job JOB3",
    "job?job=JOB12": "job JOB12",
    "who?job=JOB5": "who JOB5",
    "predict?size=10GiB": "predict 10GiB",
    "predict?size=64GiB&stripe=true": "stripe 64GiB",
}


@pytest.fixture(scope="session")
def client(lake: ioweather.Lake) -> Iterator[TestClient]:
    with TestClient(create_app(lake.root, [], hosts=(*LOOPBACK, "testserver"))) as made:
        yield made


def filled(text: str, jobs: list[str], logs: list) -> list[str]:
    words = []
    for word in text.split(" "):
        if word.startswith(("JOB", "LOG")) and word[3:].isdigit():
            known = jobs if word.startswith("JOB") else logs
            word = str(known[int(word[3:]) % len(known)])
        words.append(word)
    return words


@pytest.mark.parametrize("line", COMMANDS)
def test_command(command, jobs, logs, line: str) -> None:
    code, printed = command(*filled(line, jobs, logs), lake_option=not line.startswith(WITHOUT_LAKE))
    compare("commands", line, {"exit": code, "json": printed})


@pytest.mark.parametrize("route", ROUTES)
def test_route_gives_what_the_command_gives(client, jobs, logs, route: str) -> None:
    name, _, query = route.partition("?")
    params = {
        key: filled(value, jobs, logs)[0] for key, value in (part.split("=") for part in query.split("&") if part)
    }
    response = client.get(f"/api/v1/ask/{name}", params=params)
    if not RECORDING:
        compare("commands", ROUTES[route], {"exit": 0 if response.status_code == 200 else 1, "json": response.json()})


FUNCTIONS = ["storage", "health", "events", "runs", "triage", "forecast", "who", "claims"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_gives_what_the_command_gives(lake, name: str) -> None:
    result = getattr(ioweather, name)(lake=lake).result
    if not RECORDING:
        assert differences(recorded("commands", name)["json"]["result"], found(asdict(result))) == []


# Screens: within 80 columns, an answer first.
SCREENS = """
storage
health
events
runs
triage
forecast
who
job JOB3
job LOG0 --full
why JOB3
why JOB3 --line
why JOB47 --full
lake
exhibits
compare LOG2 LOG5
predict 10GiB
stripe 64GiB
""".strip().splitlines()


@pytest.mark.parametrize("line", SCREENS)
def test_screen_fits_80_columns(command, jobs, logs, line: str) -> None:
    code, text = command(*filled(line, jobs, logs), as_json=False)
    lines = text.splitlines()
    assert code == 0
    assert lines[0].strip()
    assert line == "lake" or line.endswith("--line") or max(map(len, lines)) <= 80


PAGES = """
/
/job
/who
/health
/climate
/responses
/contents
/applications
/exhibits
/claims
/sql
/now
/events
/jobs/JOB3
/jobs/JOB12
/jobs/JOB47
/filesystems/scratch
/components/scratch-OST0007
/users/user001
/exhibits/car11.fig7
/exhibits/pat19.fig5
""".strip().splitlines()


@pytest.mark.parametrize("page", PAGES)
def test_page(client, jobs, logs, page: str) -> None:
    """It is there, or is not, and what it loads afterwards is."""
    address = "/".join(filled(word, jobs, logs)[0] for word in page.split("/"))
    response = client.get(address, follow_redirects=True)
    parts = sorted(set(re.findall(r'"(/fragments/[^"]+)"', response.text)))
    for part in parts:
        assert client.get(html.unescape(part)).status_code in (200, 405), part  # 405: a form that is posted
    compare("pages", page, {"status": response.status_code})
