"""The public benchmark's extractor and the prompt built like its own, as named options."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rcb_agents.official_prompt import missing_code

from rcb_env.dataset.loading import load_dataset
from rcb_env.env.settings import Rules, Shown
from rcb_env.errors import UsageError
from rcb_env.play.agent import Task
from rcb_env.play.extraction import extract_by, extract_official
from rcb_env.runs import grade_completions
from rcb_env.runs.plan import RunConfig, planned
from rcb_env.runs.store import RunStore

CHALLENGE = "DyT/forward"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("```python\n    x = 1\n```", "    x = 1\n"),
        ("```python\na\n```\nand\n```python\nb\n```", "b\n"),
        ("```python\na\n```\n```python\nb", "a\n"),  # the last one does not end
        ("```py\na\n```", ""),
        ("```Python\na\n```", ""),
        ("```python \na\n```", ""),
        ("```python\r\na\r\n```", ""),
        ("~~~python\na\n~~~", ""),
        ("    return x\n", ""),
        ('```python\ns = """\n```\n"""\n```', 's = """\n'),  # the first backquotes end it
        ("text ```python\na``` text", "a"),
        ("", ""),
        (None, ""),
    ],
)
def test_the_official_rule_is_taken_at_its_word(reply: str | None, code: str) -> None:
    """Only the exact fence counts, and no block is an empty answer, not a missing one."""
    found = extract_official(reply)
    assert (found.code, found.reason) == (code, None)


def test_the_rule_is_chosen_by_name() -> None:
    masked = load_dataset().challenge(CHALLENGE).masked()
    assert extract_by("official", "```py\na = 1\n```", masked).code == ""
    assert "a = 1" in (extract_by("robust", "```py\na = 1\n```", masked).code or "")


def test_both_choices_are_off_by_default_and_recorded_when_made() -> None:
    config = RunConfig("noop", challenges=(CHALLENGE,))
    challenges = [challenge for challenge, _ in planned(config)[1]]
    usual = config.identity(challenges)
    assert not {"extractor", "protocol"} & usual.keys()
    chosen = replace(
        config, shown=Shown(protocol="official"), rules=Rules(extractor="official")
    ).identity(challenges)
    assert chosen == {**usual, "extractor": "official", "protocol": "official"}
    with pytest.raises(UsageError, match="unknown extractor 'offical'"):
        Rules(extractor="offical")  # type: ignore[arg-type]


def test_completions_are_graded_by_the_official_rule_when_asked(tmp_path: Path) -> None:
    reference = load_dataset().challenge(CHALLENGE).reference
    replies = [f"```{fence}\n{reference}```" for fence in ("python", "py")]
    lines = [{"challenge": CHALLENGE, "sample": n, "completion": r} for n, r in enumerate(replies)]
    path = tmp_path / "replies.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    store = grade_completions(
        path, tmp_path / "run", rules=Rules(extractor="official"), sandbox="bubblewrap"
    )
    states = {line["episode"]["sample"]: line["episode"]["status"] for line in store.latest()}
    assert states[0] == "passed"
    assert states[1] not in ("passed", "invalid")
    assert RunStore.open(tmp_path / "run").record["config"]["extractor"] == "official"


# --- the prompt --------------------------------------------------------------------------------


def _task(**more: object) -> Task:
    return Task(load_dataset().challenge(CHALLENGE), shown=Shown(protocol="official"), **more)  # type: ignore[arg-type]


def test_the_parts_stand_in_the_public_order() -> None:
    task = _task()
    prompt = missing_code(task, task.paper_text, task.context_files)
    places = [
        prompt.index(part)
        for part in (task.paper_text, "Complete this code:", "# TODO: Implement block", "1. Give")
    ]
    assert places == sorted(places)


def test_without_the_paper_there_is_another_opening() -> None:
    task = _task()
    prompt = missing_code(task, "", {})
    assert prompt.startswith("You complete research code.")
    assert task.paper_text.strip()[:40] not in prompt


def test_each_line_of_the_placeholder_is_followed_by_an_empty_line() -> None:
    task = _task()
    first, second = task.masked.placeholder.splitlines()
    assert f"{first}\n\n{second}\n\n" in missing_code(task, "", {})


def test_lines_of_context_files_are_joined_without_line_breaks() -> None:
    prompt = missing_code(_task(), "", {"src/a.py": "import x\nimport {y}\n", "src/b.py": "z\n"})
    assert "## src/a.py\n\nimport ximport {y}\n\n## src/b.py\n\nz\n\n" in prompt


def test_other_files_with_challenges_are_not_shown() -> None:
    challenge = load_dataset().challenge(CHALLENGE)
    paper = challenge.paper
    many = [c for c in load_dataset().challenges if len(c.paper.annotated) > 1]
    if many:
        challenge, paper = many[0], many[0].paper
    shown = Task(challenge, shown=Shown(protocol="official")).context_files
    assert list(shown) == list(paper.context)
    assert set(Task(challenge).context_files) == {*paper.context, *paper.annotated} - {
        challenge.file
    }
