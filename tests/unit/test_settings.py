"""A setting has one home: its field; options, keywords, records and the environment follow from it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click
import gymnasium
import pytest
from click.testing import CliRunner

from rcb_env import ResearchCodeEnv
from rcb_env.cli import options
from rcb_env.dataset.loading import load_dataset
from rcb_env.env.settings import Budgets, Mark, Rules, Shown, settings_of
from rcb_env.env.workspace import Workspace
from rcb_env.errors import UsageError
from rcb_env.grading.grader import Grader
from rcb_env.runs import RunConfig
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.plan import jobs, planned
from rcb_env.runs.playing import environment_of, task_of
from rcb_env.runs.store import RunStore

CHALLENGE = "DyT/forward"

# What run.json has held of a run that chose nothing, ever since there were runs.
FIRST_KEYS = {
    "paper": "full",
    "with_hint": True,
    "with_context": True,
    "feedback": "messages",
    "max_steps": 50,
    "max_test_runs": 10,
    "budgets": {"tokens": None, "cost_usd": None, "wall_s": None},
}


@dataclass(frozen=True)
class MoreShown(Shown):
    """One field more, and nothing else anywhere."""

    with_venue: bool = False
    """Whether the agent is told where the paper appeared."""


@dataclass(frozen=True)
class MoreRules(Rules):
    """One field more, and nothing else anywhere."""

    patience: Annotated[int, Mark(least=1)] = 3
    """How often the agent may fail."""


def test_a_new_setting_is_one_field_from_the_option_to_the_environment_and_the_record() -> None:
    made: list[RunConfig] = []

    @click.command()
    @options.settings(MoreShown, MoreRules)
    def command(**given: Any) -> None:
        shown, rules = MoreShown.of(given), MoreRules.of(given)
        made.append(RunConfig("noop", challenges=(CHALLENGE,), shown=shown, rules=rules))

    run = CliRunner().invoke
    told = " ".join(run(command, ["--help"]).output.split())
    assert "Whether the agent is told where the paper appeared." in told
    assert "How often the agent may fail. [default: 3; x>=1]" in told
    assert run(command, ["--patience", "0"]).exit_code == 2
    run(command, ["--venue", "--patience", "5", "--budget-seconds", "9"])
    run(command, [])
    chosen, usual = made
    dataset, pairs = planned(chosen)
    kept = chosen.identity([pairs[0][0]])
    plain = RunConfig("noop", challenges=(CHALLENGE,)).identity([pairs[0][0]])
    assert usual.identity([pairs[0][0]]) == plain
    budgets = {"tokens": None, "cost_usd": None, "wall_s": 9.0}
    assert kept == {**plain, "with_venue": True, "patience": 5, "budgets": budgets}
    read = json.loads(json.dumps(kept))
    assert (MoreShown.of(read), MoreRules.of(read)) == (chosen.shown, chosen.rules)

    (job,) = jobs(pairs, kept)
    assert (task_of(chosen, job).shown, task_of(chosen, job).rules) == (chosen.shown, chosen.rules)
    hashes = []
    with Grader("bubblewrap") as grader:
        for config in (chosen, usual):
            env = environment_of(config, job, dataset, grader)
            hashes.append(env.reset()[1]["state_hash"])
        by_name = ResearchCodeEnv(
            CHALLENGE, shown=MoreShown(), rules=MoreRules(), with_venue=True, patience=5
        )
        hashes.append(by_name.reset()[1]["state_hash"])
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_new_setting_is_an_option_of_the_command_and_a_resumed_run_keeps_it(
    tmp_path: Path,
) -> None:
    """The command itself, in a process in which `Shown` has one field more."""
    (tmp_path / "more.py").write_text(
        "import sys\n"
        "from dataclasses import dataclass\n"
        "import rcb_env.env.settings as home\n"
        "@dataclass(frozen=True)\n"
        "class Shown(home.Shown):\n"
        "    with_venue: bool = False\n"
        "    '''Whether it is told where the paper appeared.'''\n"
        "home.Shown = Shown\n"
        "from rcb_env.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    (tmp_path / "asking.py").write_text(
        "from rcb_env import ToolCall\n"
        "class Asking:\n"
        "    def play(self, task):\n"
        "        task.record('told', {'venue': task.shown.with_venue})\n"
        "        yield ToolCall('submit')\n"
    )

    def rcb(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "more.py", "run", "--sandbox", "bubblewrap", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    asked = ["--agent", "asking:Asking", "--challenges", CHALLENGE, "--venue", "--out", "run"]
    first = rcb(*asked)
    assert first.returncode == 0, first.stderr
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert config["with_venue"] is True
    (line,) = RunStore.open(tmp_path / "run").latest()
    records = JsonLines(tmp_path / "run" / line["trajectory"]).read()
    assert [each["venue"] for each in records if each["kind"] == "told"] == [True]
    again = rcb("--resume", "run")
    assert again.returncode == 0, again.stderr
    assert "1 of 1 episodes are there already" in again.stderr
    other = rcb("--resume", "run", "--no-venue")
    assert other.returncode == 2
    assert "with_venue" in other.stderr


def test_a_record_has_the_keys_it_always_had_and_no_others() -> None:
    assert {**Shown().record(), **Rules().record()} == FIRST_KEYS
    chosen = {**Shown(protocol="official").record(), **Rules(extractor="official").record()}
    assert chosen == {**FIRST_KEYS, "protocol": "official", "extractor": "official"}
    assert (Shown.of(FIRST_KEYS), Rules.of(FIRST_KEYS)) == (Shown(), Rules())
    mounts = Rules(agent_mounts=("/data", "~/.agent:rw"))
    kept = mounts.record()
    assert kept == json.loads(json.dumps(kept))
    assert Rules.of(kept) == mounts
    assert Rules.of({"tokens": 5, "feedback": "full"}) == Rules("full", budgets=Budgets(tokens=5))


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (Shown, {"paper": "ful"}, "unknown paper 'ful'. Did you mean full?"),
        (Shown, {"with_hint": "no"}, "with_hint is 'no'; it must be True or False"),
        (Rules, {"feedback": "message"}, "Did you mean messages"),
        (Rules, {"max_steps": 0}, "max_steps is 0; it must be an integer of at least 1"),
        (Rules, {"max_test_runs": True}, "max_test_runs is True"),
        (Budgets, {"cost_usd": 0}, "the budget cost_usd is 0; it must be more than 0"),
    ],
)
def test_what_cannot_be_is_refused_wherever_it_comes_from(
    kind: type[Any], given: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError) as refused:
        kind(**given)
    assert says in str(refused.value)


def test_every_setting_says_what_it_means() -> None:
    for noun in (Shown, Rules, Budgets):
        for each in settings_of(noun):
            assert each.about.endswith("."), each.name
            assert len(each.about) < 100, each.name


def test_the_environments_keywords_are_the_names_of_the_fields() -> None:
    env = gymnasium.make("rcb/Challenge-v0", challenge=CHALLENGE, max_steps=7, with_hint=False)
    observation, _ = env.reset()
    assert observation["steps_left"] == 7
    assert load_dataset().challenge(CHALLENGE).hint not in observation["text"]
    assert (
        ResearchCodeEnv(CHALLENGE, with_paper=False).reset()[0]["text"]
        == (ResearchCodeEnv(CHALLENGE, paper="none").reset()[0]["text"])
    )
    for wrong, says in (
        ({"max_step": 7}, "unknown setting 'max_step'. Did you mean max_steps"),
        (
            {"extractor": "official"},
            "unknown setting 'extractor'",
        ),  # of replies, which it never sees
        ({"budgets": Budgets(tokens=5)}, "unknown setting 'budgets'"),
        ({"paper": "none", "with_paper": True}, "leave out with_paper"),
    ):
        with pytest.raises(UsageError, match=says):
            ResearchCodeEnv(CHALLENGE, **wrong)


def test_sections_are_all_that_can_be_read_where_sections_are_shown() -> None:
    challenge = load_dataset().challenge(CHALLENGE)
    whole, some = (Workspace(challenge, Shown(paper=paper)) for paper in ("full", "sections"))
    assert "[...]" in some.read_paper()
    assert len(some.read_paper()) < len(whole.read_paper())
    assert whole.state_hash != some.state_hash


def test_a_misspelt_keyword_is_recognised_among_all_of_them() -> None:
    with pytest.raises(UsageError, match=r"Did you mean .*challenge.*dataset.*max_steps") as told:
        gymnasium.make("rcb/Challenge-v0", challange="DyT/forward")
    assert "self" not in str(told.value)
