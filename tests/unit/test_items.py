"""`rcb items`: which challenges tell strong agents from weak ones, from run folders and from a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rcb_env.cli.main import rcb
from rcb_env.errors import RcbError, StoreError, UsageError
from rcb_env.report.items import (
    BELOW_ZERO,
    EVERYBODY,
    NEGATIVE,
    NOBODY,
    WEAKER_ONLY,
    Item,
    ItemAnalysis,
    analyse,
)
from rcb_env.runs.store import RunStore
from tests.made_runs import finish, plan_of

LADDER = [f"A/rung-{n}" for n in range(10)]
"""Agent n of a ladder solves the first n + 1 of these."""


def ladder(agents: int, **more: Sequence[int]) -> dict[str, dict[str, float]]:
    """Agents of rising strength; ``more``: other challenges, by the numbers of the agents that solve them."""
    return {
        f"agent-{n}": {
            **{rung: float(place <= n) for place, rung in enumerate(LADDER)},
            **{f"B/{name}": float(n in solvers) for name, solvers in more.items()},
        }
        for n in range(agents)
    }


def analysed(shares: Mapping[str, Mapping[str, float]]) -> ItemAnalysis:
    return analyse(shares, {name: 1 for solved in shares.values() for name in solved})


def item_of(found: ItemAnalysis, challenge: str) -> Item:
    return next(item for item in found.items if item.challenge == challenge)


def make_run(
    folder: Path,
    solved: Mapping[str, float],
    *,
    samples: int = 1,
    states: Mapping[str, str] | None = None,
    **config: Any,
) -> Path:
    """A run folder in which a share of each challenge's samples passed; `states` says how others ended."""
    plan = plan_of(dict.fromkeys(solved, 3), samples=range(samples))
    record = {"config": {"agent": folder.name, "model": None, **config}, "plan": plan}
    with RunStore.create(folder, record) as store:
        for name, share in solved.items():
            for sample in range(samples):
                passed = sample < round(share * samples)
                state = (states or {}).get(name) or ("passed" if passed else "failed")
                if state != "missing":
                    finish(store, name, state, sample=sample)
    return folder


def make_runs(folder: Path, shares: Mapping[str, Mapping[str, float]], **more: Any) -> list[str]:
    return [str(make_run(folder / name, solved, **more)) for name, solved in shares.items()]


def rcb_items(*words: str) -> str:
    done = CliRunner().invoke(rcb, ["items", *words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def refused(*words: str) -> str:
    with pytest.raises(RcbError) as error:
        rcb_items(*words)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- the numbers ------------------------------------------------------------------------------


def test_discrimination_is_the_correlation_with_the_rest_by_hand() -> None:
    shares = ladder(6, odd=(1, 3, 5))
    found = item_of(analysed(shares), "B/odd")
    solved = [0, 1, 0, 1, 0, 1]
    rest = [1, 2, 3, 4, 5, 6]
    assert found.discrimination is not None
    assert found.discrimination == pytest.approx(np.corrcoef(solved, rest)[0, 1])
    assert (found.solved, found.solved_by, found.agents) == (50.0, 3, 6)
    # Fisher: z = atanh(r) +- 1.96 / sqrt(3).
    middle, half = np.arctanh(found.discrimination), 1.959964 / 3**0.5
    assert (found.low, found.high) == pytest.approx(
        (np.tanh(middle - half), np.tanh(middle + half))
    )


def test_a_challenge_is_not_compared_with_itself() -> None:
    """With the challenge inside the sum, one that is a coin toss seems to go with the rest."""
    shares = {f"agent-{n}": {"A/x": n % 2, "A/y": (n // 2) % 2} for n in range(8)}
    assert item_of(analysed(shares), "A/x").discrimination == pytest.approx(0.0, abs=1e-12)


def test_reliability_is_cronbachs_alpha_by_hand() -> None:
    # Four items, five persons: variances 0.3, 0.3, 0.3, 0.2; of the sums 2.5 (0 to 4); 4/3 (1 - 1.1 / 2.5) = 0.7467.
    rows = [(0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 0), (1, 1, 1, 1)]
    shares = {str(n): {f"A/{i}": float(x) for i, x in enumerate(row)} for n, row in enumerate(rows)}
    of_each = sum(np.var([row[i] for row in rows], ddof=1) for i in range(4))
    assert analysed(shares).reliability == pytest.approx(4 / 3 * (1 - of_each / 2.5))


def test_every_suspicious_challenge_is_found_and_stands_first() -> None:
    found = analysed(
        ladder(
            10,
            upside_down=(0, 1, 2, 3, 4),
            luck=(3,),
            below_zero=(0, 1, 2, 6, 7),
            nobody=(),
            everybody=range(10),
        )
    )
    findings = {item.challenge: item.finding for item in found.items if item.finding}
    assert findings == {
        "B/upside_down": NEGATIVE,
        "B/luck": WEAKER_ONLY,
        "B/nobody": NOBODY,
        "B/everybody": EVERYBODY,
        "A/rung-0": EVERYBODY,
        "B/below_zero": BELOW_ZERO,
    }
    names = [item.challenge for item in found.items]
    assert names[:3] == ["B/upside_down", "B/luck", "B/below_zero"]
    assert set(names[-3:]) == {"B/nobody", "B/everybody", "A/rung-0"}
    middle = [item.discrimination for item in found.items[3:-3]]
    assert middle == sorted(middle, key=lambda value: value or 0.0)


@given(
    st.integers(5, 12).flatmap(
        lambda agents: st.lists(
            st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=agents, max_size=agents),
            min_size=2,
            max_size=6,
        )
    )
)
def test_an_interval_holds_its_correlation_and_is_no_point(columns: list[list[float]]) -> None:
    shares = {
        str(agent): {f"A/{n}": column[agent] for n, column in enumerate(columns)}
        for agent in range(len(columns[0]))
    }
    for item in analysed(shares).items:
        assert 0 <= item.solved <= 100
        assert (item.low is None) == (item.discrimination is None) == (item.high is None)
        if item.discrimination is not None and item.low is not None and item.high is not None:
            assert -1 <= item.low <= item.discrimination <= item.high <= 1
            assert item.high - item.low > 0.1


def test_the_order_of_agents_does_not_matter() -> None:
    shares = ladder(7, odd=(1, 3, 5))
    assert analysed(shares).items == analysed(dict(reversed(shares.items()))).items


@pytest.mark.parametrize(("agents", "known"), [(4, False), (5, True)])
def test_few_agents_give_no_discrimination_and_it_is_said(agents: int, known: bool) -> None:
    found = analysed(ladder(agents, odd=(1, 3)))
    assert (item_of(found, "B/odd").discrimination is not None) == known
    assert (found.reliability is not None) == known
    assert any("too few" in note for note in found.notes) != known


def test_what_has_no_verdict_says_nothing_of_a_challenge() -> None:
    shares = ladder(8, odd=(1, 3, 5, 7))
    without = {
        name: {k: v for k, v in solved.items() if (name, k) != ("agent-7", "B/odd")}
        for name, solved in shares.items()
    }
    found = analysed(without)
    odd = item_of(found, "B/odd")
    assert (odd.agents, odd.solved_by) == (7, 3)
    assert found.common == len(LADDER)
    assert "of 11" in found.notes[0]
    expected = np.corrcoef([0, 1, 0, 1, 0, 1, 0], range(1, 8))[0, 1]
    assert odd.discrimination == pytest.approx(expected)


def test_agents_without_a_common_challenge_cannot_be_ordered() -> None:
    found = analysed({str(n): {f"A/{n}": 1.0, f"A/{n + 1}": 0.0} for n in range(6)})
    assert all(item.discrimination is None for item in found.items)
    assert set(found.agents.values()) == {None}
    assert any("no challenge has a verdict of every agent" in note for note in found.notes)


# --- run folders ------------------------------------------------------------------------------


def test_runs_are_agents_and_samples_are_shares(tmp_path: Path) -> None:
    shares = {
        name: {"A/x": n / 4, "A/y": n / 4, "A/z": 0.0, "A/w": 1.0}
        for n, name in enumerate("abcde", start=0)
    }
    found = json.loads(rcb_items(*make_runs(tmp_path, shares, samples=4), "--json"))
    assert found["agents"] == {name: 25 + 12.5 * n for n, name in enumerate("abcde")}
    items = {item["challenge"]: item for item in found["items"]}
    assert items["A/x"]["solved"] == 50.0
    assert (items["A/x"]["solved_by"], items["A/x"]["agents"], items["A/x"]["lines"]) == (4, 5, 3)
    assert items["A/x"]["discrimination"] == pytest.approx(1.0)
    assert (items["A/z"]["finding"], items["A/w"]["finding"]) == (NOBODY, EVERYBODY)
    assert found["notes"] == []


def test_a_folder_of_runs_stands_for_all_of_them_and_the_table_says_what_to_look_at(
    tmp_path: Path,
) -> None:
    make_runs(tmp_path, ladder(10, upside_down=(0, 1, 2, 3, 4)))
    text = rcb_items(str(tmp_path))
    rows = [line for line in text.splitlines() if line.startswith("│ ")]
    assert "B/upside_down" in rows[0]
    assert "5 of 10" in rows[0]
    assert NEGATIVE in rows[0]
    assert len(rows) == 10  # what everybody solves has no row
    assert f"{EVERYBODY} (it tells no agents apart): 1: A/rung-0" in text
    assert "11 challenges, 10 agents; reliability" in text
    everything = rcb_items(str(tmp_path), "--all")
    assert len([line for line in everything.splitlines() if line.startswith("│ ")]) == 11


def test_a_long_table_is_cut_and_says_so(tmp_path: Path) -> None:
    shares = {str(n): {f"A/{i}": float(i % 5 >= n) for i in range(1, 60)} for n in range(1, 5)}
    text = rcb_items(*make_runs(tmp_path, shares))
    assert len([line for line in text.splitlines() if line.startswith("│ ")]) == 30
    assert "more divide agents: --all, --csv and --json give every challenge" in text


def test_the_csv_has_a_row_for_every_challenge_and_keeps_stdout_clean(tmp_path: Path) -> None:
    shares = ladder(3, formula=(1,))
    rows = list(csv.DictReader(io.StringIO(rcb_items(*make_runs(tmp_path, shares), "--csv"))))
    assert len(rows) == 11
    by_name = {row["challenge"]: row for row in rows}
    assert by_name["B/formula"]["solved_by"] == "1"
    assert by_name["B/formula"]["discrimination"] == ""
    assert by_name["A/rung-0"]["finding"] == EVERYBODY


def test_unfinished_and_lost_episodes_are_left_out_and_counted(tmp_path: Path) -> None:
    shares = ladder(5)
    runs = make_runs(tmp_path, {name: shares[name] for name in list(shares)[:4]})
    states = {"A/rung-0": "infra_error", "A/rung-1": "missing"}
    runs.append(str(make_run(tmp_path / "last", shares["agent-4"], states=states)))
    found = json.loads(rcb_items(*runs, "--json"))
    assert found["common"] == 8
    assert "2 episodes without a verdict are left out" in found["notes"]
    items = {item["challenge"]: item for item in found["items"]}
    assert (items["A/rung-0"]["agents"], items["A/rung-2"]["agents"]) == (4, 5)


def test_runs_that_cannot_be_told_apart_or_differ_in_content_are_named(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", {"A/x": 1.0, "A/y": 0.0}, agent="same")
    plan = plan_of({"A/x": 3, "A/y": 3})
    record = {
        "config": {"agent": "same", "model": None},
        "plan": [{**entry, "content_hash": "other"} for entry in plan[:1]] + plan[1:],
    }
    with RunStore.create(tmp_path / "b", record) as store:
        finish(store, "A/x", "failed", content_hash="other")
        finish(store, "A/y", "passed")
    notes = json.loads(rcb_items(str(first), str(tmp_path / "b"), "--json"))["notes"]
    assert any("each run counts as an agent of its own" in note for note in notes)
    assert any("different content in some runs" in note and "A/x" in note for note in notes)


def test_one_run_is_told_what_it_cannot_tell(tmp_path: Path) -> None:
    run = make_run(tmp_path / "only", {"A/x": 1.0})
    assert "is one run: what a challenge tells of agents shows between two or more" in refused(
        str(run)
    )


def test_runs_on_different_code_are_refused(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", {"A/x": 1.0})
    record = {"config": {"agent": "b", "model": None}, "plan": plan_of({"A/x": 4})}
    with RunStore.create(tmp_path / "b", record) as store:
        finish(store, "A/x")
    assert "A/x has 4 lines in b and 3 in another run" in refused(str(first), str(tmp_path / "b"))


def test_what_cannot_be_done_is_said_in_one_line(tmp_path: Path) -> None:
    assert "there is no folder" in refused(str(tmp_path / "none"))
    runs = make_runs(tmp_path, ladder(2))
    assert "--csv and --json" in refused(*runs, "--csv", "--json")
    assert "name it alone" in refused(*runs, "results.csv")


# --- tables of results ------------------------------------------------------------------------

HEAD = "paper,file,start_tag_line,lines,model,passed,exit_code\n"


def table(folder: Path, text: str) -> str:
    path = folder / "results.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_table_of_results_is_read_as_published(tmp_path: Path) -> None:
    rows = [
        f"P,m.py,{line},2,M{model},{int(model >= line)},1\n"
        for line in range(1, 7)
        for model in range(6)
    ]
    found = json.loads(rcb_items(table(tmp_path, HEAD + "".join(rows)), "--json"))
    assert list(found["agents"]) == [f"M{n}" for n in range(6)]
    items = {item["challenge"]: item for item in found["items"]}
    assert items["P/m.py:6"]["finding"] == NOBODY
    assert (items["P/m.py:2"]["solved_by"], items["P/m.py:2"]["lines"]) == (4, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "no column paper, file, start_tag_line, lines, model, passed"),
        ("", "no column paper"),
        (HEAD + "P,m.py,1,2,A,yes,0\n", "results.csv:2: passed must be 0 or 1"),
        (HEAD + "P,m.py,1,x,A,1,0\n", "results.csv:2: passed must be 0 or 1, and lines a number"),
        (HEAD + "P,m.py,1\n", "results.csv:2: passed must be 0 or 1"),
        (HEAD + "P,m.py,1,2,A,1,0\n" * 2, "results.csv:3: P/m.py:1 stands there twice"),
        (HEAD + "P,m.py,1,2,A,1,0\n", "holds 1 model"),
        (HEAD, "holds 0 models"),
    ],
)
def test_every_flaw_of_a_table_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = table(tmp_path, text)
    assert message in refused(path)
    with pytest.raises(UsageError):
        rcb_items(path, "--json")


def test_published_results_that_are_not_there_are_said_to_be_absent(tmp_path: Path) -> None:
    path = str(tmp_path / "official_results.csv")
    assert f"there is no file {path}; the published results that come with rcb-env" in refused(path)
    with pytest.raises(StoreError):
        rcb_items(path)


def test_published_results_come_with_the_package() -> None:
    found = json.loads(rcb_items("researchcodebench", "--json"))
    assert (len(found["agents"]), found["common"]) == (32, 212)
    assert "name it alone" in refused("researchcodebench", "other")


def test_bytes_that_are_no_text_are_no_table(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_bytes(HEAD.encode() + b"\xff\xfe,\n")
    assert "is no table of results" in refused(str(path))
