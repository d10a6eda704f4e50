"""What the paper is worth, and which sections of it were opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rcb_env.cli import main
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.sections import Sections, split_sections
from rcb_env.errors import UsageError
from rcb_env.report import paper_impact, paper_use
from rcb_env.report.paper_use import BEST
from rcb_env.runs.store import RunStore
from tests.made_runs import episode, key_of, plan_of


def made(
    folder: Path, paper: str, solved: Mapping[str, bool], opened: Mapping[str, Any] | None = None
) -> RunStore:
    """A run over bundled challenges, in each of which the agent read these lines of the paper."""
    config: dict[str, Any] = {"agent": "tools", "model": "m", "paper": paper}
    challenges = {c.id: c for c in load_dataset().challenges}
    plan = plan_of({name: challenges[name].lines for name in solved})
    for entry in plan:
        entry["content_hash"] = challenges[entry["challenge"]].content_hash
    with RunStore.create(folder, {"config": config, "plan": plan}) as store:
        for name, passed in solved.items():
            key = key_of(config, name)
            with store.trajectory(key) as trajectory:
                trajectory.record("start", {"text": "write it"})
                if opened is not None and name in opened:
                    call = {"tool": "read_paper", "arguments": opened[name]}
                    trajectory.record("step", {"action": call, "text": "", "error": False})
            known: dict[str, Any] = {
                "content_hash": challenges[name].content_hash,
                "lines": challenges[name].lines,
            }
            finished = episode(name, "passed" if passed else "failed", **known)
            store.append(key, finished, trajectory)
    return RunStore.open(folder)


@pytest.fixture
def ids() -> tuple[str, ...]:
    known = [c.id for c in load_dataset().select(papers=["DyT", "minp"])]
    return (
        *[name for name in known if name.startswith("DyT")][:2],
        next(n for n in known if n.startswith("minp")),
    )


@pytest.fixture
def runs(tmp_path: Path, ids: tuple[str, ...]) -> dict[str, RunStore]:
    one, two, three = ids
    challenge = load_dataset().challenge(one)
    parts = split_sections(challenge.paper.text)
    ranked = Sections(challenge.paper.text, *challenge.topic())
    best = parts.index(
        next(p for p in parts if p.strip() == ranked.parts[ranked.ranked[1]].strip())
    )
    line = 1 + sum(part.count("\n") for part in parts[:best])
    opened = {one: {"start": line, "end": line}, two: {}}
    return {
        "with": made(tmp_path / "with", "full", {one: True, two: True, three: False}, opened),
        "without": made(tmp_path / "without", "none", {one: False, two: True, three: False}),
    }


def test_the_paper_is_worth_what_the_run_with_it_solves_more(
    runs: dict[str, RunStore], ids: tuple[str, ...]
) -> None:
    (found,) = paper_impact.read(runs).impacts
    assert found.name == "tools (m)"
    assert found.whole.difference.value == pytest.approx(100 / 3)
    worth = {
        part.name: (part.without, part.with_paper, part.difference.value) for part in found.papers
    }
    assert worth == {"DyT": (50, 100, 50), "minp": (0, 0, 0)}
    assert [part.name for part in found.challenges] == [ids[0]]
    interval = found.papers[0].difference.interval
    assert interval is not None
    assert interval.low < 50 < interval.high


def test_runs_that_differ_in_more_than_the_paper_are_no_pair(
    runs: dict[str, RunStore], tmp_path: Path, ids: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError, match="@paper=none"):
        paper_impact.read({"with": runs["with"]})
    folder = tmp_path / "other"
    with RunStore.create(
        folder, {"config": {"agent": "plan", "paper": "none"}, "plan": plan_of({ids[0]: 1})}
    ):
        pass
    with pytest.raises(UsageError, match="@paper=none"):
        paper_impact.read({"with": runs["with"], "other": RunStore.open(folder)})


def test_sections_that_were_opened_stand_beside_the_same_episodes_without_the_paper(
    runs: dict[str, RunStore], ids: tuple[str, ...]
) -> None:
    found = paper_use.read(runs).runs["with"]
    opened = {what: (one.episodes, one.passed) for what, one in found.opened.items()}
    assert opened == {
        "some sections": (1, 1),
        "the whole paper": (1, 1),
        "nothing": (1, 0),
        BEST: (2, 2),
        f"not {BEST}": (1, 0),
    }
    assert found.opened["some sections"].gain == "+100.0"
    assert found.opened["the whole paper"].gain == "+0.0"
    parts = len(split_sections(load_dataset().challenge(ids[0]).paper.text))
    assert len(found.sections) == parts, "one episode opened all of them"
    assert sorted(one.episodes for one in found.sections.values())[-2:] == [1, 2]


def test_a_run_in_which_nobody_opened_the_paper_is_told_so(runs: dict[str, RunStore]) -> None:
    with pytest.raises(UsageError, match="opened the paper"):
        paper_use.read({"without": runs["without"]})


def test_the_questions_about_papers_are_printed_and_drawn(
    runs: dict[str, RunStore], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders, page = [str(store.folder) for store in runs.values()], tmp_path / "page.html"
    for question, words in (
        ("paper", "without the paper, percent"),
        ("sections", "Sections opened"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["report", *folders, "--by", question, "--html", str(page)])
        assert ended.value.code == 0
        assert words in page.read_text()
    with pytest.raises(SystemExit):
        main(["report", *folders, "--by", "paper"])
    assert "What the paper is worth" in capsys.readouterr().out
