"""What a run shows while it is played: real commands in real terminals of several kinds, and where there is none."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.terminals import RCB, terminal

if TYPE_CHECKING:
    from tests.contract.conftest import Exchange, ModelServer

CHALLENGE = "SISS/the-defensive-mixture-and-its-importance-ratios"
SHOW = f"""
import sys, time
from rcb_env.cli.progress import Look, Progress

with Progress("single-shot (gpt-5)", plain_every_s=0) as shown:
    for second in range(3):
        what = f"{{second}} s, waits for its agent"
        rows = tuple((f"worker {{n}}", "{CHALLENGE}", what) for n in range(1, 40))
        now = "{CHALLENGE} waits (and 38 more)"
        shown.show(
            12 + second, 120, lambda: Look("8 passed, 3 failed, 1 timeout", ("pass rate so far 66.7 %",), now, rows)
        )
        time.sleep(0.1)
    if sys.stdin.isatty():
        sys.stdin.readline()
"""
_REGION = """\
def {name}(x):
    # <paper2code name="{name} it">
    return {factor} * x
    # </paper2code name="{name} it">
"""
_CASES = """\
from rcb_env.cases import case


@case(seeds=1)
def {name}d(tree, rng):
    return tree.load("{name}").{name}(rng.numpy.standard_normal(4))
"""


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]) -> Path:
    """A data set of four papers with one challenge each."""
    folder = tmp_path_factory.mktemp("four")
    names = ("double", "triple", "quadruple", "quintuple")
    for factor, name in enumerate(names, 2):
        files = {
            f"src/{name}.py": _REGION.format(name=name, factor=factor),
            "tests/cases.py": _CASES.format(name=name),
        }
        write_paper(folder / name, files)
    (folder / "papers.yaml").write_text(f"name: four\npapers: [{', '.join(names)}]\n")
    return folder


def _one_shot(server: ModelServer, model: str) -> list[str]:
    options = ["--agent", "single-shot", "--model", model, "--base-url", server.url]
    prices = ["--input-price", "100", "--output-price", "100"]
    return [*RCB, "run", *options, *prices, "--workers", "2", "--out", "run"]


def test_a_run_shows_its_rate_its_workers_and_what_it_has_used_and_ctrl_c_leaves_a_terminal_as_it_was(
    tmp_path: Path, four: Path, model_server: ModelServer
) -> None:
    """A model's name with escapes in it coloured the terminal, and cleared it."""

    def reply(exchange: Exchange) -> None:
        asked = json.dumps(exchange.body)
        if "def double" in asked or "def triple" in asked:
            model_server.answer("```python\nreturn 2 * x\n```")(exchange)
        else:
            model_server.hang()(exchange)

    model_server.plays(reply)
    command = [*_one_shot(model_server, "m\x1b[31m\x1b[2J\rred"), "--dataset", str(four)]
    with terminal(command, folder=tmp_path) as shown:
        screen = shown.until(lambda screen: "2/4" in screen and screen.count("for its agent") == 2)
        assert "single-shot (m\\x1b[31m\\x1b[2J\\rred)" in screen
        assert "sandbox: " in screen, "the screen was not cleared"
        assert "1 passed" in screen
        assert "1 failed" in screen
        assert re.search(r"pass rate so far 50\.0 % \(95 %: 0\.0 to 100\.0\)", screen), screen
        assert re.search(r"2 model calls, 240 tokens, 0\.0240 USD", screen)
        assert re.search(r"worker 1 q\w+ple/q\w+-it +\d+ s, 0 steps, waits for its agent", screen)
        assert re.search(r"about \d+ (s|min|h) left", screen)
        assert shown.cursor_is_shown, "so that one is there even after a kill"
        shown.resize(40, 8)
        shown.until(lambda screen: re.search(r"^single-shot .*… 2/4 \d:\d\d:\d\d$", screen, re.M))
        shown.send("\x03")
        assert shown.end() == 130
        assert shown.cursor_is_shown
        assert "waits for" not in shown.screen
        assert "stopped by SIGINT: 2 of 4 episodes" in shown.screen.replace("\n", "")


def test_on_a_dumb_terminal_there_are_plain_lines_and_with_v_one_for_each_episode(
    tmp_path: Path, four: Path
) -> None:
    command = [*RCB, "run", "--agent", "reference", "-qv", "--json", "--dataset", str(four)]
    with terminal(command, folder=tmp_path, environment={"TERM": "dumb"}) as shown:
        assert shown.end() == 0
        lines = shown.raw.decode().split("\r\n")
    assert b"\x1b" not in shown.raw
    ended = [line for line in lines if " sample 0: passed, " in line]
    assert len(ended) == 4
    assert [line for line in ended if not re.search(r"passed, \d+\.\d s, 2 steps$", line)] == []
    assert re.match(r"reference: 4/4 4 passed; pass rate so far 100\.0 % \(95 %: ", lines[-3])
    assert lines[-2].startswith('{"run": "runs/'), "no table, as it was asked to be quiet"


def test_nothing_is_drawn_over_what_an_agent_asks_at_the_terminal(
    tmp_path: Path, four: Path
) -> None:
    """The prompt of the agent `human` was swallowed by the moving lines."""
    options = ["--agent", "human", "--challenges", "double/double-it", "--workers", "1"]
    with terminal([*RCB, "run", *options, "--dataset", str(four)], folder=tmp_path) as shown:
        shown.until(lambda screen: screen.endswith("\n>"))
        shown.send("submit\r")
        assert shown.end() == 0
    assert "\u2501" not in shown.raw.decode().partition("Pass rates")[0], "no bar"


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (30, 6), (12, 3), (3, 2)])
def test_a_terminal_of_any_size_shows_how_far_a_run_is(
    columns: int, rows: int, tmp_path: Path
) -> None:
    """The challenge in play and what it waits for took the place of the bar, the count and the time."""
    command = [sys.executable, "-c", SHOW]
    with terminal(command, columns=columns, rows=rows, folder=tmp_path) as shown:
        if columns >= 12:
            shown.until(lambda screen: "14/120" in screen)
        if columns >= 30:
            screen = shown.until(lambda screen: "pass rate so far 66.7 %" in screen)
            assert "8 passed" in screen
            assert re.search(r"SISS.*…", screen)
            assert re.search(r"and \d+ more", screen)
            assert len(screen.splitlines()) <= rows
        if columns == 80:
            assert "worker 1 SISS/the-defensive-mixture" in screen
            assert re.search(r" 14/120 0:00:\d\d about \d+", screen)
        shown.send("\r")
        assert shown.end() == 0
        assert shown.screen == "", "what was drawn is gone"


def test_colours_are_left_out_where_nobody_wants_them(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHOW]
    for environment, coloured in (({"NO_COLOR": "1"}, False), ({}, True)):
        with terminal(command, folder=tmp_path, environment=environment) as shown:
            shown.until(lambda screen: "14/120" in screen)
            shown.send("\r")
            assert shown.end() == 0
            assert bool(re.search(rb"\x1b\[[0-9;]*3[0-9;]*m", shown.raw)) == coloured


def test_what_is_shown_is_worked_out_a_few_times_a_second_however_often_it_is_told(
    tmp_path: Path,
) -> None:
    """A run of noop episodes spent more time on its progress than on the episodes."""
    program = """
from rcb_env.cli.progress import Look, Progress

looked = []
with Progress("fast") as shown:
    for number in range(20_000):
        shown.show(number, 20_000, lambda: looked.append(number) or Look("passed"))
print(f"looked {len(looked)} times")
"""
    with terminal([sys.executable, "-c", program], folder=tmp_path) as shown:
        assert shown.end() == 0
        (times,) = re.findall(r"looked (\d+) times", shown.screen)
    assert int(times) < 1000


def test_without_a_terminal_one_line_says_it_all(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout == ""
    first, *_, last = done.stderr.splitlines()
    assert first == (
        "single-shot (gpt-5): 12/120 8 passed, 3 failed, 1 timeout; pass rate so far 66.7 %;"
        f" {CHALLENGE} waits (and 38 more)"
    )
    assert re.search(r"; about \d+ (s|min|h|days) left$", last)
