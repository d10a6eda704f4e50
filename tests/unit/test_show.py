"""`rcb show`: which data set was searched, and where else an id is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rcb_env.cli.main import rcb
from rcb_env.errors import UsageError


def show(*words: str) -> str:
    done = CliRunner().invoke(rcb, ["show", *words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_a_challenge_says_which_data_set_it_is_from() -> None:
    assert "data set:  bundled" in show("DyT/forward")
    described = json.loads(show("DyT/forward", "--json"))
    assert described["dataset"] == "bundled"
    assert isinstance(described["also_in"], list)


def test_an_unknown_id_says_where_it_was_looked_for() -> None:
    with pytest.raises(
        UsageError, match=r"Did you mean DyT/forward\?.* not in the data set bundled"
    ):
        show("DyT/forwrd")


def test_an_id_of_a_paper_is_recognised() -> None:
    with pytest.raises(UsageError, match="it is a paper: `rcb list challenges --papers DyT`"):
        show("DyT")


def test_an_id_of_another_data_set_names_that_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("papers") / "mine"
    folder.mkdir()
    CliRunner().invoke(rcb, ["new", "mine", "--dataset", str(folder)], catch_exceptions=False)
    with pytest.raises(UsageError, match="bundled has it: add --dataset bundled"):
        show("DyT/forward", "--dataset", str(folder))


def test_it_says_what_later_code_reads_from_the_missing_part() -> None:
    assert "\ndefines:   grad_alpha\n" in show("DyT/gradient-of-alpha")
    assert json.loads(show("DyT/gradient-of-alpha", "--json"))["defines"] == ["grad_alpha"]
    assert "\ndefines:" not in show("DyT/forward")
    assert json.loads(show("DyT/forward", "--json"))["defines"] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", "DyT@open"), r"DyT has no open challenge; these have: .*minp"),
        (("show", "minp@opn"), r"Did you mean minp@open\?.*`rcb list challenges --scope open`"),
        (("show", "minp", "--scope", "open"), r"`rcb list challenges --scope open --papers minp`"),
        (("list", "challenges", "--scope", "open", "--papers", "DyT"), r"DyT has no open challenge; .*`rcb list papers --scope open`"),
        (("list", "challenges", "--papers", "minp@open"), r"write minp and --scope open"),
        (("list", "challenges", "--challenges", "minp@open"), r"add --scope open"),
        (("check", "minp@open", "LEN"), r"`rcb check --scope open minp LEN`"),
    ],
)  # fmt: skip
def test_a_name_of_the_other_scope_says_what_to_write(words: tuple[str, ...], told: str) -> None:
    done = CliRunner().invoke(rcb, words, standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert re.search(told, str(done.exception)), done.exception


def test_a_file_with_both_kinds_of_challenges_is_not_graded(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text(
        "".join(json.dumps({"challenge": c, "code": ""}) + "\n" for c in ("minp@open", "DyT/x"))
    )
    with pytest.raises(UsageError, match="line 1 is of an open challenge, line 2 is not"):
        rcb(["grade", str(answers), "--out", str(tmp_path / "run")], standalone_mode=False)


def test_an_open_challenge_begins_with_its_task_and_does_not_say_how_many_lines() -> None:
    shown = show("minp@open")
    task, code = shown.index("--- task.md ---"), shown.index("--- start.py ---")
    assert task + 500 < code
    assert "TODO: Implement" in shown[code:]
    assert "line(s)" not in shown
    assert "\nlines:" not in shown
