"""Names that later code reads from a region: who is told them, and when nobody is."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rcb_agents import prompts
from rcb_agents.fitting import first_prompt
from rcb_agents.human import Human
from rcb_agents.workplace import Workplace

from rcb_env import ResearchCodeEnv
from rcb_env.dataset.loading import load_dataset
from rcb_env.env.settings import Shown
from rcb_env.env.workspace import Workspace
from rcb_env.play.agent import Task

CHALLENGE = "Diff-Transformer/keys-and-values-shared-by-groups"
NAMES = ("all_keys", "all_values")
SAID = "Later code reads from it: `all_keys`, `all_values`."
SILENT = (Shown(interface=False), Shown(protocol="official"))


class Unlimited:
    """A model without a window."""

    context_tokens = None

    def complete(self, messages: object, tools: object = ()) -> object:
        raise NotImplementedError


@pytest.fixture(scope="module")
def task() -> Task:
    return Task(load_dataset().challenge(CHALLENGE))


def all_prompts(task: Task) -> list[str]:
    """Of the agents with one prompt, the planner, the agent with tools, and an outside program."""
    with Workplace(task) as workplace:
        outside = workplace.prompt
        assert (Path(workplace.path) / "PROMPT.md").read_text() == outside
    asked = first_prompt(task, Unlimited(), prompts.missing_code)  # type: ignore[arg-type]
    return [asked, prompts.plan(task, "", {}), prompts.act(task, ""), outside]


def test_every_prompt_says_what_later_code_reads(task: Task) -> None:
    assert task.defines == NAMES
    whole, plan, act, outside = all_prompts(task)
    for prompt in (whole, plan, act):
        assert f"\n- {SAID}\n" in f"{prompt}\n"
    assert f" {SAID}\n" in outside


@pytest.mark.parametrize("shown", SILENT)
def test_no_prompt_says_it_where_it_is_not_to_be_told(task: Task, shown: Shown) -> None:
    silent = replace(task, shown=shown)
    assert silent.defines == ()
    for prompt in all_prompts(silent):
        assert "Later code reads" not in prompt


def test_no_prompt_says_anything_where_later_code_reads_nothing(task: Task) -> None:
    nothing = replace(task, challenge=load_dataset().challenge("DyT/forward"))
    assert nothing.defines == ()
    assert all_prompts(nothing) == all_prompts(replace(nothing, shown=Shown(interface=False)))


def test_the_assignment_names_them_beside_the_hint(task: Task) -> None:
    told = ResearchCodeEnv(CHALLENGE).reset()[0]["text"]
    assert "\ndefines: all_keys, all_values (later code reads this)\n" in told
    assert f'"{task.challenge.hint}"' in told
    assert "defines:" not in ResearchCodeEnv("DyT/forward").reset()[0]["text"]


def test_the_assignment_is_silent_where_they_are_not_to_be_told() -> None:
    by_keyword = ResearchCodeEnv(CHALLENGE, interface=False).reset()[0]["text"]
    assert "defines:" not in by_keyword
    for shown in SILENT:
        assert ResearchCodeEnv(CHALLENGE, shown=shown).reset()[0]["text"] == by_keyword


def test_the_switch_is_part_of_the_state(task: Task) -> None:
    silent = Workspace(task.challenge, Shown(interface=False))
    assert silent.state_hash != Workspace(task.challenge).state_hash


def test_only_a_run_without_them_records_the_switch() -> None:
    assert "interface" not in Shown().record()
    assert Shown(interface=False).record()["interface"] is False
    assert "interface" not in Shown(protocol="official").record()


@pytest.mark.parametrize("shown", [Shown(), *SILENT])
def test_a_person_who_plays_is_told_them_too(
    task: Task,
    shown: Shown,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert list(Human().play(replace(task, shown=shown))) == []
    said = "Later code reads from it: all_keys, all_values." in capsys.readouterr().out
    assert said is (shown == Shown())
