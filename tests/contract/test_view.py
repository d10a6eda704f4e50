"""The viewer's server over HTTP: who may ask, what an address can lead to, and what an answer allows a browser."""

from __future__ import annotations

import http.client
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_env.runs.store import RunStore
from tests.made_runs import finish, plan_of
from tests.viewing import viewer

pytest.importorskip("starlette")

SECRET = "what no address leads to"
_PAGES = (
    "/",
    "/run/demo/one",
    "/episode/demo/one?challenge=A/x",
    "/matrix",
    "/items",
    "/compare",
    "/static/view.js",
)


def ask(
    address: str, path: str, *, method: str = "GET", **headers: str
) -> http.client.HTTPResponse:
    """One request, with the path as it is written and headers by their names, ``_`` for ``-``."""
    where = urllib.parse.urlsplit(address)
    assert where.hostname is not None
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.text = answer.read().decode()  # type: ignore[attr-defined]
    connection.close()
    return answer


def text(answer: http.client.HTTPResponse) -> str:
    """What `ask` read."""
    return str(answer.text)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("top") / "runs"
    record = {"config": {"agent": "a"}, "created_at": "2026-01-01", "plan": plan_of({"A/x": 1})}
    with RunStore.create(folder / "demo" / "one", record) as store:
        finish(store, "A/x", "passed")
    (folder.parent / "secret.txt").write_text(SECRET)
    with RunStore.create(folder.parent / "outside", record) as store:
        finish(store, "A/x", "failed")
    (folder / "linked").symlink_to(folder.parent / "outside")
    with RunStore.create(folder / "leaks", record) as store:
        finish(store, "A/x", "failed")
    (trajectory,) = (folder / "leaks").rglob("trajectories/**/*.jsonl")
    trajectory.unlink()
    trajectory.symlink_to(folder.parent / "secret.txt")
    return folder


@pytest.fixture(scope="module")
def address(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with viewer(runs, cache=tmp_path_factory.mktemp("cache")) as found:
        yield found


@pytest.mark.parametrize("path", _PAGES)
def test_a_page_may_run_our_script_only_and_stand_in_no_other_page(address: str, path: str) -> None:
    answer = ask(address, path)
    assert answer.status == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert not re.search(r"<script(?![^>]* src=\"/static/)|\son\w+=|\sstyle=", text(answer))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "["]
)
def test_a_name_that_is_not_ours_is_not_answered(address: str, host: str) -> None:
    """A page elsewhere can give its own name our address, and then reads what it likes, unless names are checked."""
    answer = ask(address, "/", Host=host)
    assert answer.status in (400, 421)
    assert "demo" not in text(answer)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(address: str, method: str) -> None:
    assert ask(address, "/run/demo/one", method=method).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/static/../markup.py",
        "/static/%2e%2e/markup.py",
        "/static/..%2fmarkup.py",
        "/static//etc/passwd",
        "/run/../secret.txt",
        "/run/%2e%2e%2foutside",
        "/run/linked",
        "/run//etc",
        "/run/demo",
        "/run/demo/one/trajectories",
        "/episode/demo/one?challenge=../x",
        "/episode/demo/one?challenge=A/x&attempt=9",
        "/episode/demo/one?challenge=A/x&sample=-1",
        "/raw/demo/one?trajectory=../../../secret.txt",
        "/raw/demo/one?trajectory=/etc/passwd",
        "/raw/demo/one?trajectory=run.json",
        "/raw/demo/one?line=7",
        "/raw/demo/one?line=0&part=episode.nothing",
        "/raw/leaks?trajectory=trajectories/A/x.0.jsonl",
        "/challenge/demo/one?challenge=A/y",
        "/compare?a=demo/one&b=nothing",
        "/nothing",
    ],
)
def test_an_address_leads_to_runs_and_nothing_else(address: str, path: str) -> None:
    answer = ask(address, path)
    assert answer.status == 404
    assert SECRET not in text(answer)
    assert "root:" not in text(answer)
    assert "Traceback" not in text(answer)


def test_a_trajectory_that_is_a_link_out_of_the_run_is_not_shown(address: str) -> None:
    answer = ask(address, "/episode/leaks?challenge=A/x")
    assert answer.status == 200
    assert "so it is not read" in text(answer)
    assert SECRET not in text(answer)


def test_damage_is_told_on_the_page_of_the_run(runs: Path, address: str) -> None:
    episodes = runs / "demo" / "one" / "episodes.jsonl"
    whole = episodes.read_bytes()
    try:
        episodes.write_bytes(whole + b'{"key": "<b>"}\n' + b'{"torn')
        told = text(ask(address, "/run/demo/one"))
    finally:
        episodes.write_bytes(whole)
    assert "episodes.jsonl:2: counts as missing" in told
    (runs / "broken").mkdir()
    (runs / "broken" / "run.json").write_text("{")
    try:
        with viewer(runs, cache=runs.parent / "other") as other:
            assert "broken" in text(ask(other, "/"))
            assert "damaged" in text(ask(other, "/run/broken"))
    finally:
        (runs / "broken" / "run.json").unlink()


def test_an_address_that_others_can_reach_asks_for_the_token(runs: Path, tmp_path: Path) -> None:
    with viewer(runs, "--host", "0.0.0.0", cache=tmp_path) as printed:
        token = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(printed).query))["token"]
        port = urllib.parse.urlsplit(printed).port
        address = f"http://127.0.0.1:{port}/"
        for path in ("/", "/?token=wrong", "/static/view.js", "/raw/demo/one?line=0"):
            refused = ask(address, path)
            assert refused.status == 403
            assert "demo" not in text(refused)
        assert ask(address, "/", Cookie="rcb-view=wrong").status == 403
        assert ask(address, f"/?token={token}", Host="evil.example").status == 421
        let_in = ask(address, f"/run/demo/one?token={token}&q=x")
        assert let_in.status == 303
        assert let_in.headers["Location"] == "/run/demo/one?q=x"
        cookie = let_in.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert ask(address, "/", Cookie=cookie.split(";")[0]).status == 200
        # A path with two slashes would send the browser, and it alone, to another host.
        assert ask(address, f"//evil.example?token={token}").headers["Location"] == "/evil.example"


def test_a_single_run_can_be_shown_and_a_folder_must_be_there(runs: Path, tmp_path: Path) -> None:
    with viewer(runs / "demo" / "one", cache=tmp_path) as address:
        assert "/run/one" in text(ask(address, "/"))
        assert ask(address, "/episode/one?challenge=A/x").status == 200
