"""The viewer in a real browser: pages, filters, keys, a run that goes on, and text that would do harm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from rcb_env.cli import main
from rcb_env.runs.store import RunStore
from tests.made_runs import episode, finish, key_of, plan_of
from tests.viewing import axe, chromium, viewer

_PLAN = {"A/one": 1, "A/two": 8, "B/three": 5, "B/four": 30}
_MARK = "window.harmed = true"
HOSTILE = (
    f"<script>{_MARK}</script><img src=x onerror='{_MARK}'></pre></textarea><svg onload='{_MARK}'>"
    "\x1b[31mred\x1b[0m\x00nul\u202egnp.exe\u202c\u200bzero\ud800half"
)
_SERIOUS = ("serious", "critical")


def _make(folder: Path, agent: str, states: dict[str, str], *, samples: int = 1) -> RunStore:
    config = {"agent": agent, "model": {"name": "m"}}
    plan = plan_of(_PLAN, samples=range(samples))
    store = RunStore.create(folder, {"config": config, "created_at": "2026-01-01", "plan": plan})
    for challenge, status in states.items():
        cases = [
            {"case": "adds", "seed": 1, "outcome": "passed", "message": "", "detail": ""},
            {
                "case": "multiplies",
                "seed": 2,
                "outcome": "passed" if status == "passed" else "failed",
                "message": "" if status == "passed" else "output['x']: 3 values differ",
                "detail": "",
            },
        ]
        verdict = {"status": status, "cases": cases, "notes": [], "error_class": None}
        if status == "failed":
            verdict |= {
                "error_class": "logic",
                "message": "multiplies: output['x']: 3 values differ",
            }
        code = f"    return {'x * 2' if status == 'passed' else 'x + 2'}  # {agent}\n"
        graded = status not in ("invalid", "infra_error")
        more: dict[str, Any] = {"verdict": verdict} if graded else {}
        finish(store, challenge, status, code=code, **more)
    return store


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield made
        made.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page whose console stays silent."""
    context: BrowserContext = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(f"dialog {dialog.message}"))
    yield page
    context.close()
    assert said == []


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    good = dict.fromkeys(_PLAN, "passed")
    _make(folder / "good", "repair", good).close()
    _make(folder / "mixed", "single-shot", {**good, "A/two": "failed", "B/four": "timeout"}).close()
    return folder


@pytest.fixture(scope="module")
def address(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with viewer(runs, cache=tmp_path_factory.mktemp("cache")) as found:
        yield found


def test_two_clicks_lead_from_the_runs_to_a_failing_test(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name="mixed").click()
    page.get_by_role("link", name="A/two").click()
    outcome = page.get_by_role("region", name="Outcome", exact=True)
    expect(outcome).to_contain_text("multiplies")
    expect(outcome).to_contain_text("3 values differ")
    expect(page.get_by_role("article")).to_have_count(1)
    page.get_by_role("link", name="mixed").click()
    expect(page).to_have_url(re.compile("/run/mixed"))


def test_a_filter_is_in_the_address_and_goes_on_in_the_episode(page: Page, address: str) -> None:
    page.goto(f"{address}run/mixed")
    page.locator("select[name=state]").select_option("failed")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "state=failed" in page.url
    link = page.url
    page.locator("select[name=state]").select_option("")
    page.locator("select[name=size]").select_option("21+")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto(link)
    page.get_by_role("link", name="A/two").click()
    expect(page.get_by_role("link", name="Next")).to_have_count(0)  # nothing else failed
    page.goto(f"{address}run/mixed?q=SINGLE-SHOT")
    expect(page.locator("tbody tr")).to_have_count(4)
    page.goto(f"{address}run/mixed?q=nothing+like+it")
    expect(page.get_by_text("No episode fits.")).to_be_visible()


def test_keys_go_through_rows_and_episodes(page: Page, address: str) -> None:
    page.goto(f"{address}run/mixed")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    expect(page.locator("tr.here")).to_contain_text("A/two")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("A/two")
    page.keyboard.press("n")
    expect(page.get_by_role("heading", level=1)).to_have_text("B/three")
    page.keyboard.press("p")
    expect(page.get_by_role("heading", level=1)).to_have_text("A/two")
    page.keyboard.press("j")
    expect(page.locator("article.here")).to_have_count(1)
    page.keyboard.press("e")
    expect(page.locator("details:not([open])")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    expect(page).to_have_url(re.compile("/run/mixed$"))
    page.keyboard.press("/")
    page.keyboard.type("jk?")
    expect(page.get_by_role("searchbox")).to_have_value("jk?")


def test_two_runs_are_compared_with_both_answers(page: Page, address: str) -> None:
    page.goto(f"{address}compare?a=mixed&b=good")
    expect(page.get_by_role("article")).to_have_count(2)
    first = page.get_by_role("article").first
    expect(first).to_contain_text("A/two")
    expect(first.locator("td.left")).to_contain_text("x + 2")
    expect(first.locator("td.right")).to_contain_text("x * 2")
    page.goto(f"{address}matrix?differ=1")
    expect(page.locator("tbody tr")).to_have_count(2)


def test_a_run_that_goes_on_is_followed(page: Page, tmp_path: Path) -> None:
    """The page is open while episodes are played and stored, as `rcb run` stores them."""
    folder = tmp_path / "runs" / "going"
    with (
        _make(folder, "slow", {"A/one": "passed"}) as store,
        viewer(tmp_path / "runs", cache=tmp_path / "cache") as address,
    ):
        page.goto(address)
        expect(page.locator(".live")).to_be_visible()
        page.get_by_role("link", name="going").click()
        page.get_by_role("link", name="A/one").focus()
        page.keyboard.press("j")
        with store.trajectory(key_of(store.record["config"], "A/two")) as trajectory:
            trajectory.record("start", {"text": "write it", "challenge": "A/two", "sample": 0})
            expect(page.locator(".playing")).to_contain_text("A/two")
            step = {"text": "wrote", "error": False, "action": {"tool": "write_region"}}
            trajectory.record("step", {**step, "index": 0})
            page.locator(".playing a").click()
            expect(page.get_by_role("article")).to_have_count(1)
            trajectory.record("step", {**step, "index": 1})
            expect(page.get_by_role("article")).to_have_count(2)
            expect(page.get_by_text("in play")).to_be_visible()
        key = key_of(store.record["config"], "A/two")
        store.append(key, episode("A/two", "failed"), trajectory)
        expect(page.locator(".badge").first).to_contain_text("failed")
        page.goto(f"{address}run/going")
        expect(page.locator(".tiles")).to_contain_text("1 passed, 1 failed, 2 missing")
        finish(store, "B/four", "passed")
        expect(page.locator(".tiles")).to_contain_text("2 passed, 1 failed, 1 missing")
        store.close()
        expect(page.locator(".live")).to_have_count(0)


def test_a_trajectory_that_would_do_harm_is_only_text(page: Page, tmp_path: Path) -> None:
    """Names of tools, arguments, answers, tests and whole kinds of records are written by models and tested code."""
    long = "x" * 10_000_000
    plan = plan_of({f"A/{_MARK}<b>": 3})
    config = {"agent": HOSTILE.replace("\ud800", ""), "model": {"name": "<u>m</u>"}}
    record = {"config": config, "created_at": "<i>now</i>", "plan": plan}
    (challenge,) = (entry["challenge"] for entry in plan)
    folder = tmp_path / "runs" / "<b>run"
    with RunStore.create(folder, record) as store:
        key = key_of(config, challenge)
        with store.trajectory(key) as trajectory:
            trajectory.record("start", {"text": HOSTILE})
            trajectory.record(HOSTILE, {HOSTILE: HOSTILE, "long": long})
            trajectory.record("warning", {"text": HOSTILE})
            sent = {"role": HOSTILE, "content": HOSTILE, "tool_calls": [{"name": HOSTILE}]}
            reply = {"text": long, "reasoning": HOSTILE, "usage": {"prompt_tokens": HOSTILE}}
            trajectory.record("model_call", {"messages": [sent, 7], "reply": reply})
            tests = {
                "status": HOSTILE,
                "passed": HOSTILE,
                "total": [],
                "cases": [{"case": HOSTILE, "outcome": HOSTILE, "message": HOSTILE, "seed": {}}, 3],
                "stdout": HOSTILE,
            }
            action = {"tool": HOSTILE, "arguments": {HOSTILE: HOSTILE, "code": long}}
            step = {"action": action, "text": long, "error": HOSTILE, "tests": tests}
            trajectory.record("step", {**step, "index": "0", "reward": HOSTILE, "tokens": HOSTILE})
            trajectory.record("step", {"action": HOSTILE, "text": [HOSTILE], "tests": HOSTILE})
            trajectory.record("end", {"usage": HOSTILE})
        verdict = {
            "status": "failed",
            "error_class": "logic",
            "message": HOSTILE,
            "notes": [HOSTILE],
            "stdout": HOSTILE + long,
            "cases": [
                {"case": HOSTILE, "seed": 1, "outcome": "failed", "message": HOSTILE, "detail": ""}
            ],
        }
        made = episode(challenge, "failed", verdict=verdict, code=HOSTILE + long, error=HOSTILE)
        store.append(key, made, trajectory)
    with viewer(tmp_path / "runs", cache=tmp_path / "cache") as address:
        page.goto(address)
        page.locator("a.main").click()
        page.locator("a.main").click()
        expect(page.get_by_role("article")).to_have_count(2)
        page.keyboard.press("e")
        shown = page.content()
        assert len(shown) < 2_000_000
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        expect(page.locator("main")).to_contain_text("\\x1b[31mred\\x1b[0m\\x00nul\\u202egnp.exe")
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        page.get_by_role("link", name="Show all").first.click()
        assert page.evaluate("document.contentType") == "text/plain"
        assert len(page.request.get(page.url).body()) > 10_000_000
        for place in (
            f"challenge/%3Cb%3Erun?challenge={challenge}",
            "matrix",
            "items",
            "compare?a=<b>run&b=<b>run",
        ):
            page.goto(f"{address}{place}")
        assert page.evaluate("window.harmed") is None


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_can_be_used_by_everybody(
    browser: Browser, runs: Path, address: str, tmp_path: Path, width: int, scheme: Any
) -> None:
    """No finding of axe-core that is serious, in any page, and in the file that a report is."""
    source = axe()
    with pytest.raises(SystemExit) as ended:
        main(["report", str(runs), "--html", str(tmp_path / "report.html")])
    assert ended.value.code == 0
    places = ["", "run/mixed", "matrix", "items", "compare?a=mixed&b=good", "run/nothing"]
    places += [f"{kind}/mixed?challenge=A/two" for kind in ("episode", "challenge")]
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    found = []
    page = context.new_page()
    for place in [*(f"{address}{each}" for each in places), (tmp_path / "report.html").as_uri()]:
        page.goto(place)
        page.evaluate(source)
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found += [
            (place, each["id"], [node["html"] for node in each["nodes"]])
            for each in result["violations"]
            if each["impact"] in _SERIOUS
        ]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, place
    context.close()
    assert found == []


def test_a_report_is_one_file_that_loads_nothing(page: Page, runs: Path, tmp_path: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for command, title in (("report", "Leaderboard"), ("compare", "mixed against good")):
        path = tmp_path / f"{command}.html"
        with pytest.raises(SystemExit) as ended:
            main([command, str(runs), "--html", str(path)])
        assert ended.value.code == 0
        asked.clear()
        page.goto(path.as_uri())
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        assert asked == [path.as_uri()]
        page.pdf(path=tmp_path / f"{command}.pdf")
        assert (tmp_path / f"{command}.pdf").read_bytes().startswith(b"%PDF")
    page.goto((tmp_path / "report.html").as_uri())
    expect(page.locator("figure svg").first).to_be_visible()
    expect(page.locator("table").first).to_contain_text("single-shot (m)")
