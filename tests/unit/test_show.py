"""`rcb show`: which data set was searched, and where else an id is."""

from __future__ import annotations

import json

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
