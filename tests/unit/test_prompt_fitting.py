"""What goes into a prompt, what gives way when it does not fit, and what is never cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from rcb_agents import prompts, tokens
from rcb_agents.fitting import first_prompt, left_out, older_half
from rcb_agents.replies import Reply

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.sections import join_sections, rank, split_sections
from rcb_env.env.settings import Shown
from rcb_env.env.workspace import Workspace, WorkspaceError
from rcb_env.play.agent import ModelSettings, NoAnswer, Task

PAPER = """\
# A title
We study things.

## Training
Learning rates are scheduled, and schedules are learnt.

## The normalisation layer
The scale of the layer is alpha, and tanh is applied.

## Results
Numbers.
"""


class Sized:
    """A model of which only the window is known."""

    def __init__(self, context_tokens: int | None) -> None:
        self.context_tokens = context_tokens

    def complete(self, messages: Any, tools: Any = ()) -> Reply:
        raise NotImplementedError


@pytest.fixture
def records() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def task(records: list[dict[str, Any]]) -> Task:
    def record(kind: str, payload: Mapping[str, object]) -> None:
        records.append({"kind": kind, **payload})

    challenge = load_dataset().challenge("DyT/forward")
    return Task(challenge, model=ModelSettings("m", max_tokens=500), record=record)


def test_sections_are_cut_at_headings_and_nothing_is_lost() -> None:
    sections = split_sections(PAPER)
    assert [section.split("\n")[0] for section in sections] == [
        *("# A title", "## Training", "## The normalisation layer", "## Results")
    ]
    assert "".join(sections) == PAPER
    tex = "intro\n\\section{A}\na\n\\subsection*{B}\nb\n"
    assert [len(split_sections(text)) for text in (tex, "", "no headings")] == [3, 0, 1]
    long = "A paragraph of words.\n\n" * 500
    assert len(split_sections(long)) > 3
    assert "".join(split_sections(long)) == long


def test_the_opening_leads_and_then_what_speaks_of_the_missing_part() -> None:
    sections = split_sections(PAPER)
    assert rank(sections, "tanh scale")[:2] == [0, 2]
    assert rank(sections, "learning rate schedules")[:2] == [0, 1]
    assert join_sections(sections, [0, 2]) == (f"{sections[0]}[...]\n\n{sections[2]}[...]")
    assert join_sections(sections, [0, 1, 2, 3]) == PAPER.strip()
    assert join_sections(sections, []) == ""


def test_all_of_it_is_there_when_it_fits(task: Task, records: list[dict[str, Any]]) -> None:
    for window in (None, 1_000_000):
        prompt = first_prompt(task, Sized(window), prompts.missing_code)
        assert task.paper_text.strip() in prompt
        assert all(text.strip() in prompt for text in task.context_files.values())
    assert [record["trimmed"] for record in records] == [[], []]


def test_the_paper_gives_way_by_sections_then_files_and_never_the_code(
    task: Task, records: list[dict[str, Any]]
) -> None:
    whole = tokens.estimate(first_prompt(task, Sized(None), prompts.missing_code), "m")
    seen: list[tuple[int, int, int]] = []
    for share in (1.5, 1.1, 0.9, 0.7, 0.5):
        window = int(whole * share) + 500
        prompt = first_prompt(task, Sized(window), prompts.missing_code)
        assert task.masked_file.strip() in prompt
        assert tokens.estimate(prompt, "m") <= window - 500
        chars, trimmed = records[-1]["chars"], records[-1]["trimmed"]
        kinds = [note.split(":")[0] for note in trimmed]
        assert kinds == sorted(kinds, reverse=True)  # first "paper", then "file"
        seen.append((chars["paper"], chars["context"], len(trimmed)))
    assert seen == sorted(seen, key=lambda row: (-row[0], -row[1]))
    assert seen[-1][2] > 0


def test_what_never_fits_is_no_answer(task: Task) -> None:
    with pytest.raises(NoAnswer, match="task and code alone"):
        first_prompt(task, Sized(700), prompts.missing_code)


def test_sections_only_show_less_of_the_paper(task: Task) -> None:
    whole = first_prompt(task, Sized(None), prompts.missing_code)
    some = first_prompt(
        replace(task, shown=Shown(paper="sections")), Sized(None), prompts.missing_code
    )
    none = first_prompt(replace(task, shown=Shown(paper="none")), Sized(None), prompts.missing_code)
    assert len(none) < len(some) < len(whole)
    assert "[...]" in some
    assert "<paper>" not in none


def test_the_switches_take_away_hint_and_context(task: Task) -> None:
    shown = Shown(with_hint=False, with_context=False, paper="none")
    bare = replace(task, shown=shown)
    prompt = first_prompt(bare, Sized(None), prompts.missing_code)
    assert f'"{task.challenge.hint}"' not in prompt
    assert "# TODO: Implement block\n" in prompt
    assert prompt.count("## ") == 1  # the masked file
    assert bare.extract("```python\n# TODO: Implement block\nx = 1\n```").code is not None
    workspace = Workspace(task.challenge, shown)
    assert workspace.list_files().count("\n") == 0
    assert f'"{task.challenge.hint}"' not in workspace.read_file(task.file)
    with pytest.raises(WorkspaceError, match="no such file"):
        workspace.read_file(next(iter(task.context_files)))
    workspace.write_region("        pass\n")
    workspace.undo()
    assert workspace.state_hash != Workspace(task.challenge).state_hash


def rounds(count: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
    for number in range(count):
        call = {"id": str(number), "type": "function", "function": {"name": "x", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call, call]})
        messages += [{"role": "tool", "tool_call_id": str(number), "content": "word " * 100}] * 2
    return messages


def test_history_goes_by_whole_rounds_the_oldest_first() -> None:
    messages = rounds(5)
    assert left_out(messages, None, "m") == range(0)
    assert left_out(messages, 100_000, "m") == range(0)
    gone = left_out(messages, 700, "m")
    assert gone.start == 1
    assert (gone.stop - 1) % 3 == 0
    assert left_out(messages, 1, "m") == range(1, 13)  # the last round stays, whatever it takes
    assert left_out(messages[:4], 1, "m") == range(0)


def test_a_refusal_by_the_server_halves_what_is_left() -> None:
    messages = rounds(4)
    first = older_half(messages, range(0))
    assert first == range(1, 7)
    second = older_half(messages, first)
    assert second == range(1, 10)
    assert older_half(messages, second) is None
    assert older_half(messages[:1], range(0)) is None


def test_prompts_have_a_version_that_every_word_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = prompts._version()
    assert before == prompts.VERSION
    monkeypatch.setattr(prompts, "_PLAN", prompts._PLAN + " ")
    assert prompts._version() != before


def test_a_prompt_of_an_open_challenge_does_not_say_how_many_lines() -> None:
    challenge = load_dataset("bundled@open").challenge("minp@open")
    task = Task(challenge)
    for prompt in (prompts.missing_code(task, "", {}), prompts.act(task, "")):
        assert "TODO: Implement" in prompt
        assert "line(s)" not in prompt
