"""Reports as sheets: their numbers are the report's, and Markdown, LaTeX and pages say the same."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rcb_env.cli import main
from rcb_env.cli.main import rcb
from rcb_env.report import sheets
from rcb_env.report.kinds import Days, Kinds, kinds_of
from rcb_env.report.scoring import Planned, score
from rcb_env.report.sheet import Sheet, to_latex, to_markdown
from rcb_env.report.slices import (
    FRESH,
    SEEN,
    SIZES,
    UNDATED,
    by_contamination,
    by_domain,
    by_hint,
    by_nesting,
    by_scope,
    by_size,
    size_of,
)
from rcb_env.runs.store import RunStore
from rcb_env.view import document
from tests.made_runs import finish, plan_of

LINES = {"A/one": 1, "A/two": 8, "B/three": 5, "B/four": 30}
NASTY = "a|b & 50% $x_1$ #1 {c} ~^\\ <b>`*[d](e)\x1b"


def made(folder: Path, agent: str, solved: dict[str, int]) -> RunStore:
    """A run in which some challenges are solved after so many test runs, and the others are not."""
    record = {"config": {"agent": agent}, "plan": plan_of(LINES)}
    with RunStore.create(folder, record) as store:
        for challenge in LINES:
            passed = challenge in solved
            usage = {
                "calls": 1,
                "prompt_tokens": 100 * (solved.get(challenge, 3) + 1),
                "cost_usd": 0.5,
            }
            finish(
                store,
                challenge,
                "passed" if passed else "failed",
                test_runs=solved.get(challenge, 3),
                usage=usage,
                verdict={
                    "status": "passed" if passed else "failed",
                    "cases": [],
                    "notes": [],
                    "error_class": None if passed else "logic",
                },
            )
    return RunStore.open(folder)


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, RunStore]:
    return {
        "once": made(tmp_path / "once", "once", {"A/one": 0, "B/three": 0}),
        "again": made(tmp_path / "again", "again", {"A/one": 0, "B/three": 1, "B/four": 2}),
    }


def test_the_leaderboard_begins_with_the_best(stores: dict[str, RunStore]) -> None:
    sheet = sheets.numbers(stores).sheets()[0]
    assert [row[0] for row in sheet.rows] == ["again", "once"]
    assert sheet.rows[0][sheet.columns.index("pass rate")] == "75.0"
    assert sheet.rows[0][sheet.columns.index("USD")] == "2"
    assert sheet.rows[0][sheet.columns.index("proven")] == "n/a"  # nobody recorded where it ran
    assert "score" not in sheet.columns
    assert "Unfinished episodes count as not passed" in sheet.note


def test_rates_at_equal_effort_are_what_was_solved_with_so_much(
    stores: dict[str, RunStore],
) -> None:
    numbers = sheets.numbers(stores)
    curves = {curve.effort: curve for curve in sheets.equal_efforts(numbers.sides)}
    assert curves["test runs"].limits == (0, 1, 2, 3)
    assert curves["test runs"].rates == {"once": (50, 50, 50, 50), "again": (25, 50, 75, 75)}
    assert curves["tokens"].limits == (100, 200, 300, 400)
    assert curves["tokens"].rates["again"] == (25, 50, 75, 75)
    assert "USD" not in curves  # all cost the same


def test_what_went_wrong_adds_up(stores: dict[str, RunStore]) -> None:
    shares = sheets.ending_shares(sheets.numbers(stores).summaries)
    assert shares == {"once": {"failed: logic": 50.0}, "again": {"failed: logic": 25.0}}


def test_scores_of_open_challenges_stand_beside_the_rates(tmp_path: Path) -> None:
    record = {"config": {"agent": "a"}, "plan": plan_of({"A/x@open": 1, "A/y@open": 1})}
    with RunStore.create(tmp_path / "run", record) as store:
        for name, score_of in (
            ("A/x@open", {"value": 0.5, "se": 0.1, "baseline": -1.0, "terms": {}}),
            ("A/y@open", {"baseline": -1.0, "terms": {}}),
        ):
            verdict = {"status": "passed", "cases": [], "notes": [], "score": score_of}
            finish(store, name, "passed", verdict=verdict)
    summaries = sheets.numbers({"run": RunStore.open(tmp_path / "run")}).summaries
    board = sheets.leaderboard(summaries)
    assert board.rows[0][board.columns.index("score")].startswith("-0.250 ± ")
    (sheet,) = sheets.open_challenges(summaries)
    assert sheet.rows == (
        ("A/x@open", "+0.500 ± 0.100"),
        ("A/y@open", "failed"),
        ("mean", "-0.250"),
    )


def test_parts_hold_every_episode_once_and_have_its_rate() -> None:
    rows = [
        Planned(
            f"p{n % 3}/{n}", f"p{n % 3}", lines, 0, "passed" if n % 2 else "failed", lines - n % 2
        )
        for n, lines in enumerate([1, 2, 3, 5, 6, 10, 11, 20, 21, 400])
    ]
    sizes = by_size(rows)
    assert [part.name for part in sizes] == [name for name, _, _ in SIZES]
    assert [part.episodes for part in sizes] == [2] * 5
    nesting = by_nesting(rows)
    assert sum(part.episodes for part in nesting) == len(rows)
    assert [part.rate.value for part in nesting] == [0.0, 100.0]
    assert nesting[1].rate == score(rows[1::2], ks=[]).pass_rate
    assert [part.name for part in by_scope(rows)] == ["region"]
    either = [*rows, Planned("p0@open", "p0", 4, 0)]
    assert [part.name for part in by_scope(either)] == ["region", "open"]
    assert by_nesting([Planned("p/x", "p", 3, 0)]) == ()
    assert size_of(0) == "1-2"


def test_parts_by_hint_domain_and_contamination_need_to_be_known_of_every_challenge() -> None:
    rows = [
        Planned("old/a", "old", 2, 0, "passed"),
        Planned("new/b", "new", 8, 0, "failed"),
        Planned("dateless/c", "dateless", 5, 0, "passed"),
    ]
    words = {"old/a": 2, "new/b": 9, "dateless/c": 3}
    assert [part.name for part in by_hint(rows, words)] == ["1-2", "3-4", "5+"]
    assert by_hint(rows, {"old/a": 2}) == ()
    domains = {"old": "vision", "new": "language", "dateless": "vision"}
    assert [(part.name, part.lines) for part in by_domain(rows, domains)] == [
        ("language", 8),
        ("vision", 7),
    ]
    assert by_domain(rows, {}) == ()
    days = {
        "old": Days(None, datetime.date(2024, 1, 1)),
        "new": Days(None, datetime.date(2025, 3, 1)),
        "dateless": Days(datetime.date(2025, 1, 1), None),
    }
    found = by_contamination(rows, Kinds(days=days, cutoff="2024-06"))
    assert [(part.name, part.rate.value) for part in found] == [
        (SEEN, 100.0),
        (FRESH, 0.0),
        (UNDATED, 100.0),
    ]
    assert by_contamination(rows, Kinds(days=days)) == ()


def test_kinds_come_from_the_run_and_for_older_runs_from_what_is_known_of_the_papers() -> None:
    plan = plan_of({"DyT/forward": 3, "hyla/hypernetwork-weights": 2, "own/x": 1})
    older = kinds_of({"plan": plan, "config": {}})
    assert older.domains["DyT"] == "computer vision"
    assert older.days["DyT"].code == datetime.date(2025, 3, 9)
    assert older.days["own"] == Days(None, None)
    assert "own/x" not in older.hint_words
    told = {"DyT": {"domain": "norms", "dates": {"first_public_code": "2020-01-01", "v1": "soon"}}}
    own = [{**entry, "hint_words": 4} for entry in plan]
    newer = kinds_of({"plan": own, "papers": told, "config": {"model": "O3_HIGH"}})
    assert (newer.domains["DyT"], newer.hint_words["own/x"]) == ("norms", 4)
    assert newer.days["DyT"] == Days(datetime.date(2025, 3, 13), datetime.date(2020, 1, 1))
    assert newer.cutoff == "2023-10"
    assert kinds_of({"plan": own, "config": {}}, "2024-01").cutoff == "2024-01"


def _dated(folder: Path, model: str) -> Path:
    """A run of three papers that its model may or may not have seen."""
    lines = {"old/a": 2, "old/b": 3, "new/a": 8, "new/b": 1, "newer/a": 2, "newer/b": 2}
    dates = {"old": "2023-01-01", "new": "2025-03-01", "newer": "2025-04-01"}
    papers = {
        name: {"domain": "d" if name == "new" else "e", "dates": {"first_public_code": day}}
        for name, day in dates.items()
    }
    record = {
        "config": {"agent": "a", "model": {"name": model}},
        "plan": [{**entry, "hint_words": entry["lines"]} for entry in plan_of(lines)],
        "papers": papers,
    }
    with RunStore.create(folder, record) as store:
        for name in lines:
            finish(store, name, "passed" if name[:3] == "old" or name == "new/a" else "failed")
    return folder


def test_a_report_says_what_a_model_may_have_seen(tmp_path: Path) -> None:
    folder = _dated(tmp_path / "run", "gpt-4o-mini")
    numbers = sheets.numbers({"run": RunStore.open(folder)})
    titles = [sheet.title for sheet in numbers.sheets()]
    for title in (
        "Pass rate by words of the hint",
        "Pass rate by domain",
        "Pass rate by contamination",
        "Papers that a model cannot have seen",
        "When papers and their code became public",
    ):
        assert title in titles
    by_domain = next(s for s in numbers.sheets() if s.title == "Pass rate by domain")
    assert by_domain.columns == ("domain", "challenges", "lines", "run", "run, scaled")
    assert by_domain.rows[0] == ("d", "2", "9", "50.0 [n/a]", "88.9 [n/a]")
    text = document.html("Report", document.report_sections(numbers))
    assert "<h2" in text
    assert "First commits against knowledge cutoffs" in text
    unknown = sheets.numbers({"run": RunStore.open(_dated(tmp_path / "other", "nobody/knows"))})
    assert "Contamination" not in [s.title for s in document.report_sections(unknown)]


def test_rates_of_parts_are_printed_by_kind(tmp_path: Path) -> None:
    folder = _dated(tmp_path / "run", "nobody/knows")

    def report(*words: str) -> str:
        done = CliRunner().invoke(rcb, ["report", str(folder), *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    refused = CliRunner().invoke(rcb, ["report", str(folder), "--by", "contamination"])
    assert "nobody knows the knowledge cutoff of its model: say it with --cutoff NAME" in str(
        refused.exception
    )
    assert "Pass rate by lines of code" in report("--by", "size")
    said = ("--by", "contamination", "--cutoff", "run=2024-06")
    told = report(*said)
    for words in (FRESH, "2025-03-01", "not safe"):
        assert words in told
    found = json.loads(report(*said, "--json"))["contamination"]
    assert [part["name"] for part in found["parts"]] == [SEEN, FRESH]
    assert found["safe_papers"] == ["new", "newer"]
    assert found["pass_rate"]["all"] == pytest.approx(50)
    assert found["pass_rate"]["safe"] == pytest.approx(25)
    assert found["pass_rate"]["interval"][0] < -25
    assert found["pass_rate_over_others"] is None
    assert [
        part["name"] for part in json.loads(report("--by", "hint", "--json"))["hint"]["parts"]
    ] == [
        "1-2",
        "3-4",
        "5+",
    ]


def test_a_name_cannot_break_a_table() -> None:
    sheet = Sheet(NASTY, ("run", NASTY), ((NASTY, "1.0"), ("x\ny", NASTY)), NASTY)
    written = to_markdown([sheet])
    assert "\x1b" not in written
    rows = [line for line in written.splitlines() if line.startswith("|")]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [3, 3, 3, 3]
    assert not re.search(r"(?<!\\)[<`*\[]", written.replace("**", ""))
    latex = to_latex([sheet])
    assert not re.search(r"(?<!\\)[%$#_]", latex.replace(r"\textbackslash{}", ""))
    body = latex.split(r"\midrule")[1].split(r"\bottomrule")[0]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in body.strip().splitlines()] == [1, 1]


def test_the_command_line_prints_and_writes_every_form(
    stores: dict[str, RunStore], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("altair")
    folders = [str(store.folder) for store in stores.values()]
    charts, page = tmp_path / "charts", tmp_path / "report.html"
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "report",
                *folders,
                "--markdown",
                "--latex",
                "--html",
                str(page),
                "--charts",
                str(charts),
            ]
        )
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "**Leaderboard**" in printed
    assert r"\toprule" in printed
    kinds = {path.name.partition(".")[2] for path in charts.iterdir()}
    assert kinds == {"svg", "png", "pdf", "vl.json"}
    assert (charts / "leaderboard.pdf").read_bytes().startswith(b"%PDF")
    assert (charts / "leaderboard.png").read_bytes().startswith(b"\x89PNG")
    html = page.read_text()
    assert html.count("<svg") >= 6
    assert not re.search(r"<script|<link|<img|https?://(?!www\.w3\.org/)", html)
    for wanted in ("75.0", "Pass rate at equal tokens", "failed: logic"):
        assert wanted in html
    with pytest.raises(SystemExit):
        main(["compare", *folders, "--latex"])
    assert "again against once" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_one_line(
    stores: dict[str, RunStore], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("altair")
    (tmp_path / "taken").write_text("")
    for option, where in (("--html", "no/such/x.html"), ("--charts", "taken")):
        with pytest.raises(SystemExit) as ended:
            main(["report", str(stores["once"].folder), option, str(tmp_path / where)])
        assert ended.value.code == 2
        assert re.fullmatch(r"rcb: cannot write .*; name another \w+\n", capsys.readouterr().err)
