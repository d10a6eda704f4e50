"""Runs as training data: what is exported, read back, scored, graded and rewarded again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.rewards import RewardSpec, reward_spec, rewards_of
from rcb_env.errors import StoreError, UsageError
from rcb_env.grading.shared import shared_grader
from rcb_env.grading.worth import Worth
from rcb_env.play.agent import ModelSettings
from rcb_env.report.rows import read_rows
from rcb_env.report.scoring import score
from rcb_env.report.summary import summarize
from rcb_env.report.training import FORMS, Exported, export, outcomes, rows_of
from rcb_env.runs import RunConfig, grade_completions, open_run, run_experiment
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.store import RunStore
from rcb_env.wrappers import ChatMessages

CHALLENGES = [one.id for one in load_dataset().challenges if one.paper.id == "DyT"][:4]
SPECS: list[Any] = [
    "sparse",
    "cases",
    "lines",
    "shaped",
    "weighted",
    "cases:shaping=0.5,gamma=0.9,step_cost=0.01,test_cost=0.1,token_cost=0.0001",
    {"outcome": "cases", "weight": "lines", "shaping": 2.0},
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two samples of some challenges, solved and not, by a model that is simulated."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    config = RunConfig(
        agent="repair:rounds=1",
        model=ModelSettings("simulated:skill=0.4"),
        challenges=tuple(CHALLENGES),
        samples=3,
        workers=2,
    )
    with open_run(config, folder) as store:
        run_experiment(config, store)
    return folder


def played(run: Path) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each episode and the steps of its trajectory."""
    for line in RunStore.open(run).latest():
        records = list(JsonLines(run / line["trajectory"]).read())
        yield line["episode"], [record for record in records if record["kind"] == "step"]


def worth_of(episode: dict[str, Any]) -> Callable[[], Worth]:
    challenge = load_dataset("bundled").challenge(episode["challenge"])
    return lambda: shared_grader("auto").worth(challenge, faults=True)


@pytest.mark.parametrize("form", FORMS)
def test_both_kinds_of_file_are_read_back_equal(run: Path, tmp_path: Path, form: Any) -> None:
    made = [export([run], form, tmp_path / f"rows.{kind}") for kind in ("jsonl", "parquet")]
    lines, table = (list(read_rows(tmp_path / f"rows.{kind}")) for kind in ("jsonl", "parquet"))
    assert lines == table
    assert len(lines) == made[0].rows == made[1].rows > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl", "rows.parquet"]


def test_rows_score_and_grade_as_the_run_did(run: Path, tmp_path: Path) -> None:
    export([run], "rl", tmp_path / "rl.parquet")
    export([run], "rl", tmp_path / "rl.jsonl")
    store = RunStore.open(run)
    assert score(outcomes(read_rows(tmp_path / "rl.parquet"))) == summarize(store).score
    graded = grade_completions(tmp_path / "rl.jsonl", tmp_path / "graded", workers=2)
    again = {(e["challenge"], e["sample"]): e["status"] for e in _episodes(graded)}
    assert again == {(e["challenge"], e["sample"]): e["status"] for e in _episodes(store)}
    assert set(again.values()) == {"passed", "failed"}
    for reward in ("sparse", "cases", "weighted"):
        paid = []
        for name, made in (("played", run), ("graded", graded.folder)):
            export([made], "rl", tmp_path / f"{name}.jsonl", reward=reward_spec(reward), force=True)
            rows = read_rows(tmp_path / f"{name}.jsonl")
            paid.append({(row["challenge"], row["sample"]): row["reward"] for row in rows})
        assert paid[0] == paid[1]
        assert {0.0, 1.0} <= {*paid[0].values()} or reward != "sparse"


def test_the_messages_are_those_of_the_chat_wrapper(run: Path, tmp_path: Path) -> None:
    export([run], "rl", tmp_path / "rl.jsonl", arguments="text")
    export([run], "rl", tmp_path / "objects.jsonl")
    row, objects = (
        max(read_rows(tmp_path / name), key=lambda row: len(row["messages"]))
        for name in ("rl.jsonl", "objects.jsonl")
    )
    for message in objects["messages"]:
        for call in message.get("tool_calls", ()):
            assert isinstance(call["function"]["arguments"], dict)
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    assert objects == row
    env = ChatMessages(ResearchCodeEnv(row["challenge"]))
    messages, _ = env.reset(seed=row["seed"])
    total = 0.0
    for message in row["messages"]:
        if message["role"] == "assistant":
            messages, reward, *_ = env.step(message)
            total += reward
    assert messages == row["messages"]
    assert total == row["reward"] == sum(row["rewards"])
    roles = [message["role"] for message in messages]
    assert row["mask"] == [int(role == "assistant") for role in roles]
    assert len(row["rewards"]) == len(messages)
    names = {tool["function"]["name"] for tool in json.loads(row["tools"])}
    assert {call["tool_calls"][0]["function"]["name"] for call in messages[2::2]} <= names


@pytest.mark.parametrize("declared", SPECS, ids=str)
def test_rewards_of_a_stored_episode_are_those_that_playing_it_pays(
    run: Path, declared: Any
) -> None:
    spec = reward_spec(declared)
    assert reward_spec(json.loads(json.dumps(spec.to_dict()))) == spec
    for count, (episode, steps) in enumerate(played(run)):
        stored = rewards_of(
            spec, steps, lines=episode["lines"], verdict=episode["verdict"], worth=worth_of(episode)
        )
        if declared == "sparse":
            assert stored == [step["reward"] for step in steps]
        if count % 3:
            continue  # playing takes boxes
        env = ResearchCodeEnv(episode["challenge"], reward=declared)
        env.reset()
        paid = []
        for step in steps:
            env.charge(step["tokens"])
            paid.append(env.step(step["action"])[1])
        assert paid == stored


def test_the_tokens_of_the_steps_are_those_of_the_episode(run: Path) -> None:
    for episode, steps in played(run):
        usage = episode["usage"]
        tokens = usage["prompt_tokens"] + usage["completion_tokens"]
        assert sum(step["tokens"] for step in steps) == tokens > 0


def test_what_is_taught_is_solved_and_pairs_share_their_task(run: Path, tmp_path: Path) -> None:
    rows = {}
    for form in ("sft", "preference"):
        made = export([run, run], form, tmp_path / f"{form}.jsonl")
        rows[form] = list(read_rows(tmp_path / f"{form}.jsonl"))
        assert made.left_out
    solved = sum(episode["status"] == "passed" for episode, _ in played(run))
    assert len(rows["sft"]) == 2 * solved
    assert {row["status"] for row in rows["sft"]} == {"passed"}
    for row in rows["preference"]:
        assert (row["chosen_status"], row["rejected_status"]) == ("passed", "failed")
        assert [message["role"] for message in row["prompt"]] == ["system", "user"]
        assert row["chosen"][0]["role"] == row["rejected"][0]["role"] == "assistant"
        assert row["chosen_code"] != row["rejected_code"]
        assert row["chosen_reward"] > row["rejected_reward"]


def test_a_kind_of_file_or_of_rows_that_is_not_known_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"end with \.jsonl or \.parquet"):
        export([run], "rl", tmp_path / "rl.csv")
    with pytest.raises(UsageError, match="Did you mean sft"):
        export([run], "stf", tmp_path / "rl.jsonl")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", FORMS)
def test_the_command_writes_the_same_rows_and_says_how_many(
    run: Path, tmp_path: Path, form: Any
) -> None:
    made = export([run], form, tmp_path / "wanted.jsonl", reward=reward_spec("cases"))
    said = rcb_export(run, form, "made.jsonl", "--reward", "cases", folder=tmp_path)
    assert (said.returncode, said.stdout) == (0, f"{made.rows} rows in made.jsonl\n")
    assert said.stderr.count("left out: ") == len(made.left_out)
    assert made.without_prompts == {"repair:rounds=1"}
    assert "not the prompts of repair:rounds=1" in said.stderr
    assert (tmp_path / "made.jsonl").read_bytes() == (tmp_path / "wanted.jsonl").read_bytes()


def test_the_command_refuses_in_one_line_what_it_cannot_write(run: Path, tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('not installed')\n")
    for form, out, says in (
        ("rl", "rows.csv", "the name must end with .jsonl or .parquet"),
        ("sft", "rows", "the name must end with .jsonl or .parquet"),
        ("preference", "rows.parquet", "install rcb-env[parquet], or choose .jsonl"),
    ):
        said = rcb_export(run, form, out, folder=tmp_path)
        assert (said.returncode, said.stdout) == (2, "")
        assert says in said.stderr
        assert len(said.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["pyarrow.py"]


def test_an_older_file_is_kept_unless_force_is_given(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_text("mine\n")
    refused = rcb_export(run, "rl", "rows.jsonl", folder=tmp_path)
    assert (refused.returncode, out.read_text()) == (2, "mine\n")
    assert refused.stderr == (
        "rcb: rows.jsonl is there already: add --force, or choose another --out\n"
    )
    assert rcb_export(run, "rl", "rows.jsonl", "--force", folder=tmp_path).returncode == 0
    assert len(list(read_rows(out))) == 12


def test_no_file_is_written_when_no_episode_gives_a_row(tmp_path: Path) -> None:
    config = RunConfig(agent="noop", challenges=tuple(CHALLENGES[:1]))
    with open_run(config, tmp_path / "noop") as store:
        run_experiment(config, store)
    said = rcb_export(tmp_path / "noop", "sft", "rows.jsonl", folder=tmp_path)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.splitlines() == [
        "left out: 1 episode (not solved)",
        "rcb: no episode gives a row, so rows.jsonl is not written; --format rl takes every finished one",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["noop"]


def rcb_export(
    run: Path, form: str, out: str, *more: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """The command, with the modules of a folder before all others."""
    command = [sys.executable, "-m", "rcb_env.cli", "export", str(run)]
    return subprocess.run(
        [*command, "--format", form, "--out", out, *more],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("spars", "Did you mean sparse"),
        ("sparse:step_cost", "write name=value"),
        ("sparse:step_cost=much", "step_cost is 'much'"),
        ("sparse:step_cots=1", "Did you mean step_cost"),
        ({"outcome": "case"}, "Did you mean cases"),
        ({"gamma": 2}, "gamma is 2"),
        ({"step_cost": -1}, "step_cost is -1"),
        ({"step_cost": True}, "step_cost is True"),
        (None, "a text or a dict"),
    ],
)
def test_a_reward_that_cannot_be_is_refused(declared: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        reward_spec(declared)
    with pytest.raises(UsageError, match=says):
        ResearchCodeEnv("DyT/forward", reward=declared)


def test_shaping_adds_nothing_to_an_episode_without_discount(run: Path) -> None:
    for episode, steps in played(run):
        plain, shaped = (
            sum(rewards_of(spec, steps, lines=episode["lines"], verdict=episode["verdict"]))
            for spec in (RewardSpec(), RewardSpec(shaping=3.0))
        )
        assert shaped == pytest.approx(plain)


def test_words_beside_a_call_are_exported_and_a_reply_without_a_call_is_no_call(
    run: Path, tmp_path: Path
) -> None:
    """Of a model that calls the tools itself; here its replies are put into a stored trajectory."""
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    line = next(RunStore.open(folder).latest())
    path = folder / line["trajectory"]
    start, *_ = (record for record in JsonLines(path).read() if record["kind"] == "start")
    step = {"kind": "step", "text": "t", "error": False, "tests": None, "tokens": 3}
    call = {"id": "x", "name": "list_files", "arguments": "{}"}
    look = {"tool": "list_files", "arguments": {}}
    records = [
        start,
        {"kind": "model_call", "reply": {"text": "I look.", "tool_calls": [call, call]}},
        {**step, "action": look},
        {**step, "action": look},
        {"kind": "model_call", "reply": {"text": "Done, I think.", "tool_calls": []}},
        {**step, "action": {"tool": "", "arguments": {}}, "error": True},
        {"kind": "model_call", "reply": {"text": "```python\n1\n```", "tool_calls": []}},
        {**step, "action": {"tool": "submit", "arguments": {}}},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    row = next(rows_of([RunStore.open(folder)], "rl"))
    said = [message for message in row["messages"] if message["role"] == "assistant"]
    assert [message["content"] for message in said] == ["I look.", "", "Done, I think.", ""]
    assert ["tool_calls" in message for message in said] == [True, True, False, True]
    roles = [message["role"] for message in row["messages"][2:]]
    assert roles == ["assistant", "tool"] * 2 + ["assistant", "user", "assistant", "tool"]


def test_a_cut_off_call_is_not_taught_and_reasoning_is_kept_or_counted(
    run: Path, tmp_path: Path
) -> None:
    """A reply that ended in the middle of its arguments was exported as a call of the model's, with mask 1."""
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    step = {"kind": "step", "text": "t", "error": True, "tests": None, "tokens": 3}
    cut = {"tool": "write_region", "arguments": {"": '{"code": "x = '}}
    done = {"tool": "submit", "arguments": {}}
    calls = [{"id": "x", "name": "submit", "arguments": "{}"}]
    shown = {"text": "", "reasoning": "I think.", "tool_calls": calls}
    hidden = {"text": "", "tool_calls": calls, "usage": {"reasoning_tokens": 9}}
    for line, reply in zip(RunStore.open(folder).latest(), (shown, hidden), strict=False):
        path = folder / line["trajectory"]
        start = next(record for record in JsonLines(path).read() if record["kind"] == "start")
        records = [
            start,
            {"kind": "model_call", "reply": reply},
            {**step, "action": cut},
            {**step, "action": done},
        ]
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    made = Exported()
    rows = list(rows_of([RunStore.open(folder)], "rl", made=made))
    assert [m.get("reasoning_content") for m in rows[0]["messages"]] == [None] * 2 + [
        "I think.",
        *[None] * 3,
    ]
    assert all("reasoning_content" not in message for message in rows[1]["messages"])
    assert made.without_reasoning == 1
    assert made.cut_off == 2
    for row in rows[:2]:
        assert row["mask"] == [0, 0, 0, 0, 1, 0]
        (call,) = row["messages"][2]["tool_calls"]
        assert call["function"]["arguments"] == cut["arguments"]
    pairs = Exported()
    list(rows_of([RunStore.open(folder)], "preference", made=pairs))
    assert pairs.cut_off == 0


def test_a_run_without_its_trajectories_is_refused_and_single_ones_are_named(
    run: Path, tmp_path: Path
) -> None:
    """Export said "no steps" of a run whose trajectories had been deleted."""
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    lost, torn, *_ = (folder / line["trajectory"] for line in RunStore.open(folder).latest())
    lost.unlink()
    torn.write_text('{"kind": "start", "text": "t"}\n{"kind": "step", "action": {}, "text": 7}\n')
    made = export([folder], "rl", tmp_path / "rows.jsonl")
    assert made.rows == 10
    assert made.left_out == {"its trajectory is missing or damaged": 2}
    assert made.problems[0].startswith(f"{lost} is missing: ")
    assert made.problems[1] == f"{torn}:2: the record is damaged (text)"
    shutil.rmtree(folder / "trajectories")
    for form in FORMS:
        with pytest.raises(StoreError, match="trajectories is missing"):
            export([folder], form, tmp_path / "none.jsonl")


def _episodes(store: RunStore) -> list[dict[str, Any]]:
    return [line["episode"] for line in store.latest()]


def test_tokens_that_a_server_gave_and_the_part_that_passed_stand_with_each_message(
    model_server: Any, tmp_path: Path
) -> None:
    code = load_dataset().challenge(CHALLENGES[0]).reference

    def by_token(ids: list[int], *calls: tuple[str, Any]) -> Any:
        """As vLLM answers who asks for token ids."""

        def play(exchange: Any) -> None:
            made = model_server.calls(*calls)
            kept: dict[str, Any] = {}
            made(_Kept(kept))
            body = kept["body"]
            body["prompt_token_ids"] = [1, 2, 3]
            body["choices"][0]["token_ids"] = ids
            told = [{"token": "x", "logprob": -0.5 * id} for id in ids]
            body["choices"][0]["logprobs"] = {"content": told}
            exchange.send(200, body)

        return play

    model_server.plays(
        by_token([7, 8], ("write_region", {"code": code}), ("run_tests", {})),
        model_server.calls(("submit", {})),
    )
    model = ModelSettings("m", base_url=model_server.url, token_ids=True)
    config = RunConfig(agent="tools", model=model, challenges=(CHALLENGES[0],))
    with open_run(config, tmp_path / "run") as store:
        run_experiment(config, store)
    assert model_server.requests[0]["body"]["return_token_ids"] is True
    assert model_server.requests[0]["body"]["logprobs"] is True
    for kind in ("jsonl", "parquet"):
        export([tmp_path / "run"], "rl", tmp_path / f"rows.{kind}")
        (row,) = read_rows(tmp_path / f"rows.{kind}")
        sampled = {"prompt_ids": [1, 2, 3], "ids": [7, 8], "logprobs": [-3.5, -4.0]}
        assert row["sampled"] == [None, None, sampled, *[None] * 5]
        assert row["progress"] == [None, None, None, None, 1.0, None, 1.0, None]
    export([tmp_path / "run"], "rl", tmp_path / "asked.jsonl", prompts=True)
    (asked,) = read_rows(tmp_path / "asked.jsonl")
    roles = [message["role"] for message in asked["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    assert asked["mask"] == [0, 1, 0, 0, 1]
    assert asked["sampled"] == [None, sampled, None, None, None]
    assert json.loads(asked["tools"])


class _Kept:
    """An exchange that keeps what it would send."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self._kept = kept

    def send(self, _status: int, body: Any, *_: Any) -> None:
        self._kept["body"] = body


def test_what_agents_asked_their_models_is_a_kind_of_row(run: Path, tmp_path: Path) -> None:
    """Of agents that make the calls for their model, rows had the calls and not the prompts."""
    rows: dict[bool, list[Any]] = {}
    for prompts in (False, True):
        for kind in ("jsonl", "parquet"):
            path = tmp_path / f"{prompts}.{kind}"
            export([run], "rl", path, reward=reward_spec("sparse:step_cost=0.5"), prompts=prompts)
            assert rows.setdefault(prompts, list(read_rows(path))) == list(read_rows(path))
    assert len(rows[True]) == len(rows[False])  # repair has one conversation an episode
    for plain, asked in zip(rows[False], rows[True], strict=True):
        calls = [
            record
            for line in RunStore.open(run).latest()
            if (line["episode"]["challenge"], line["episode"]["sample"])
            == (asked["challenge"], asked["sample"])
            for record in JsonLines(run / line["trajectory"]).read()
            if record["kind"] == "model_call"
        ]
        said = [m["content"] for m in asked["messages"] if m["role"] == "assistant"]
        assert said == [call["reply"]["text"] for call in calls]
        assert [m for m in asked["messages"] if m["role"] != "assistant"] == [
            message for call in calls for message in call["messages"]
        ]
        assert asked["mask"] == [int(m["role"] == "assistant") for m in asked["messages"]]
        assert asked["reward"] == plain["reward"] == sum(asked["rewards"])
        assert asked["tools"] == "[]"
    with pytest.raises(UsageError, match="--prompts"):
        export([run], "preference", tmp_path / "pairs.jsonl", prompts=True)
