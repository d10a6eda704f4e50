"""Runs as training data: conversations in OpenAI's chat format, with tool calls and masks.

Three forms, each a row for each
    sft         solved episode: ``messages`` and ``mask``
    preference  pair of a solved and a failed episode that were set the same task: ``prompt``,
                ``chosen``, ``rejected``
    rl          episode: ``messages``, ``mask``, and ``rewards`` of any declared reward

The messages are those of `rcb_env.wrappers.ChatMessages`, so a model is trained on what it will be
shown. The arguments of tool calls are objects, which the chat templates of trainers expect (text, as
OpenAI's API has it, on demand). ``reasoning_content`` is the reasoning that the server showed.
``mask`` and ``rewards`` have one number for each message: 1 where the model wrote it, and what
its step earned. So has ``progress``: the part of the cases that passed when this message had the tests run, at the end those of
the final grading; null where nothing ran. ``sampled`` has the ids and log-probabilities of a message's tokens, if the run asked
for them (`--token-ids`) and the server gave them: those of the whole reply stand with its first call. The mask is 0 for a call whose arguments were cut off: what stands there is what was
written, and no call. ``tools`` is the JSON text of the schemas. Files are JSON Lines, or Parquet with
the package pyarrow (messages are of its JSON type); `datasets` of Hugging Face reads both.

Guarantees: the order of the run, one pass, memory that does not grow with it (of pairs, only their
places are held). `read_rows` gives back equal rows from both kinds of file; the rows of "rl" have every
finished episode, so scores from them are the run's, and `rcb grade` takes such a file as it is. An
"infra_error" says nothing about a model: its mask is 0 throughout.
An episode whose trajectory is missing or damaged gives no row and is named in `Exported.problems`.
Rows of agents that make the calls for their model hold the assignment and the calls (`Exported.without_prompts` names them);
what these asked their model is another kind of row (`rcb_env.report.prompts`).
Not covered: tokens (`rcb_env.report.tokens`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from rcb_env.dataset.selection import Selection
from rcb_env.env.actions import tool_schemas
from rcb_env.env.rewards import RewardSpec, rewards_of
from rcb_env.errors import StoreError, UsageError, unknown
from rcb_env.grading.verdict import Verdict
from rcb_env.report.prompts import asked
from rcb_env.report.rows import ABOUT, Row, clean, writer_of
from rcb_env.report.scoring import Planned
from rcb_env.report.stored_challenges import StoredChallenges
from rcb_env.report.summary import plan_of
from rcb_env.report.tokens import TOKENS, RowTokenizer
from rcb_env.report.turns import Start, Step, read_turns
from rcb_env.runs.store import INFRA, RunStore
from rcb_env.wrappers.chat import SYSTEM, assistant
from rcb_env.wrappers.layer import left

_GRADED_ALONE = {"action": None, "error": False}
"""The one step of an answer that `rcb grade` was given: it was handed in."""
Form = Literal["sft", "preference", "rl"]
FORMS: tuple[Form, ...] = get_args(Form)
Arguments = Literal["objects", "text"]


@dataclass
class Exported:
    """What an export did."""

    rows: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason -> number of episodes that gave no row."""
    without_prompts: set[str] = field(default_factory=set)
    """Agents that made the calls for their model: what they asked it is not in the rows."""
    without_reasoning: int = 0
    """Rows (sides of pairs) whose model reasoned, with none or only a part of it in ``reasoning_content``."""
    cut_off: int = 0
    """Messages whose mask is 0 since the arguments of their call were cut off."""
    problems: list[str] = field(default_factory=list)
    """What of the runs is damaged or missing, one line each."""

    def taken(self, one: _Made) -> Row:
        """Note what is to be said about a row; returns it."""
        if one.unasked:
            self.without_prompts.add(one.row["agent"])
        self.without_reasoning += one.reasoning_lost
        self.cut_off += one.cut_off
        return one.row

    def without(self, reason: str) -> None:
        """Count an episode that gives no row."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


_DIGITS = 6  # of shares: some readers of JSON keep ten, so more would not survive them


def export(
    runs: Sequence[str | Path],
    form: Form,
    path: str | Path,
    *,
    reward: RewardSpec | None = None,
    arguments: Arguments = "objects",
    selection: Selection | None = None,
    tokenizer: RowTokenizer | None = None,
    prompts: bool = False,
    force: bool = False,
) -> Exported:
    """Write runs as training data. The file is there whole or, if no episode gives a row, not at all.

    Args:
        runs: run directories.
        form: one of `FORMS`.
        path: ends with .jsonl or .parquet.
        reward: what steps earn; None: `rewards.sparse`.
        arguments: of tool calls: objects, or JSON text.
        selection: of which challenges; None: of all.
        tokenizer: adds ``input_ids`` and ``labels`` to each row; not to pairs.
        prompts: whether rows are the conversations that agents had with their models; not for pairs.
        force: whether an older file is replaced.

    Raises:
        UsageError: the form or the kind of file is unknown, the file is there, or pyarrow is missing.
        StoreError: a run cannot be read, or the file cannot be written.
    """
    if form not in FORMS:
        raise unknown("format", str(form), FORMS)
    path = Path(path)
    if form == "preference" and (tokenizer is not None or prompts):
        raise UsageError(
            "pairs are of episodes, and their trainer tokenizes them: leave out --tokenizer and --prompts"
        )
    more = [*(["conversation"] if prompts else []), *(TOKENS if tokenizer else [])]
    writer = writer_of(path, form, more)  # before any work: it may be that there is no pyarrow
    if path.exists() and not force:
        raise UsageError(f"{path} is there already: add --force, or choose another --out")
    stores = [RunStore.open(run) for run in runs]
    made = Exported()
    rows = rows_of(
        stores,
        form,
        reward=reward,
        arguments=arguments,
        selection=selection,
        prompts=prompts,
        made=made,
    )
    scratch = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with writer(scratch) as out:
            for row in rows:
                out.write({**row, **tokenizer.tokens(row)} if tokenizer else row)
                made.rows += 1
        if made.rows:
            scratch.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        scratch.unlink(missing_ok=True)
    made.problems[:0] = [problem for store in stores for problem in store.problems]
    return made


def rows_of(
    stores: Iterable[RunStore],
    form: Form,
    *,
    reward: RewardSpec | None = None,
    arguments: Arguments = "objects",
    selection: Selection | None = None,
    prompts: bool = False,
    made: Exported | None = None,
) -> Iterator[Row]:
    """The rows of `export`, one at a time.

    Args:
        stores: runs open for reading.
        form: one of `FORMS`.
        reward: what steps earn; None: `rewards.sparse`.
        arguments: of tool calls: objects, or JSON text.
        selection: of which challenges; None: of all.
        prompts: see `export`.
        made: where episodes without a row are counted.

    Raises:
        StoreError: a run cannot be read, or has lost its trajectories.
    """
    counted = made if made is not None else Exported()
    spec = reward or RewardSpec()
    runs = [_Run(store, counted, arguments, selection) for store in stores]
    if form == "preference":
        yield from _pairs(runs, spec, counted)
        return
    for run in runs:
        for line in run.store.latest():
            if run.leaves_out(line["episode"]):
                continue
            one = run.made(line, spec)
            if one is None:
                continue
            if form == "sft" and one.row["status"] != "passed":
                counted.without("not solved")
            elif form == "sft" and not any(one.row["mask"]):
                counted.without("no steps")
            elif prompts:
                yield from asked(one.row, run.store.trajectory_of(line), as_text=run.as_text)
            else:
                yield counted.taken(one)


# --- one run ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Made:
    """A row, and what is to be said about it."""

    row: Row
    unasked: bool
    reasoning_lost: bool
    cut_off: int


class _Run:
    """Rows of the episodes of a run."""

    def __init__(
        self, store: RunStore, made: Exported, arguments: Arguments, selection: Selection | None
    ) -> None:
        self.store = store
        self._made = made
        self.as_text = arguments == "text"
        config = store.record.get("config", {})
        self._max_steps = _whole(config.get("max_steps"))
        self._max_test_runs = _whole(config.get("max_test_runs"))
        self._own_lines = {outcome.challenge: outcome.own_lines for outcome in plan_of(store)}
        self._name = store.folder.resolve().name
        self._challenges = StoredChallenges(store)
        self._chosen = self._challenges.chosen(selection) if selection else None
        store.need_trajectories()

    def leaves_out(self, episode: Mapping[str, Any]) -> bool:
        """Whether its challenge is not selected; counted."""
        out = self._chosen is not None and not self._chosen(episode["challenge"])
        if out:
            self._made.without("not selected")
        return out

    def made(self, line: Mapping[str, Any], spec: RewardSpec) -> _Made | None:
        """A whole episode; None, and counted, if its trajectory cannot be read."""
        episode = line["episode"]
        try:
            start, steps = read_turns(self.store.trajectory_of(line))
        except StoreError as error:
            self._lost(error)
            return None
        earned = rewards_of(
            spec,
            [step.model_dump() for step in steps] or [_GRADED_ALONE],
            lines=int(episode["lines"]),
            verdict=episode.get("verdict"),
            worth=lambda: self._challenges.worth(episode, faults=spec.counts_faults),
        )
        trained = episode["status"] != INFRA
        messages = self._opening(start) if start else []
        mask, rewards = [0] * len(messages), [0.0] * len(messages)
        progress: list[float | None] = [None] * len(messages)
        sampled: list[dict[str, Any] | None] = [None] * len(messages)
        for message, reward, step in self._turns(steps, earned[: len(steps)]):
            messages.append(message)
            mask.append(int(trained and step is not None and not step.cut_off))
            rewards.append(reward)
            progress.append(step.part_passed if step else None)
            sampled.append(step.sampled.model_dump() if step and step.sampled.ids else None)
        if steps and trained:
            progress[-2] = _final_part(episode.get("verdict"))
        lost = any(step.reasoning_lost for step in steps)
        shown = any(step.reasoning for step in steps)
        # An outside program may report tokens of reasoning without any call of a model.
        unseen = bool(episode["usage"].get("reasoning_tokens")) and not shown
        row = {
            "run": self._name,
            **{name: clean(episode.get(name)) for name in ABOUT},
            "own_lines": self._own_lines.get(episode["challenge"]),
            "content_hash": episode["content_hash"],
            "code": clean(episode["code"]),
            "messages": messages,
            "mask": mask,
            "rewards": rewards,
            "progress": [part if part is None else round(part, _DIGITS) for part in progress],
            "sampled": sampled,
            "reward": sum(earned),
            "tools": json.dumps(tool_schemas()),
        }
        return _Made(
            row,
            unasked=any(step.unasked for step in steps),
            reasoning_lost=lost or unseen,
            cut_off=sum(step.cut_off for step in steps),
        )

    def task(self, line: Mapping[str, Any]) -> str | None:
        """What an episode was set, as a text: equal for equal tasks. None, and counted, if that cannot be read."""
        try:
            start, _ = read_turns(self.store.trajectory_of(line), steps=False)
        except StoreError as error:
            self._lost(error)
            return None
        return json.dumps(
            [line["episode"]["content_hash"], self._opening(start) if start else None]
        )

    def _lost(self, error: StoreError) -> None:
        self._made.without("its trajectory is missing or damaged")
        self._made.problems.append(str(error))

    def _opening(self, start: Start) -> list[dict[str, Any]]:
        budget = {"steps_left": self._max_steps, "test_runs_left": self._max_test_runs}
        told = f"{clean(start.text)}\n\n{left(budget)}"
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": told}]

    def _turns(
        self, steps: Sequence[Step], rewards: Sequence[float]
    ) -> Iterator[tuple[dict[str, Any], float, Step | None]]:
        """Each message, what it earned, and its step, if the model wrote it."""
        tests_left = self._max_test_runs
        for number, (step, reward) in enumerate(zip(steps, rewards, strict=True)):
            action = step.called
            tests_left -= action is not None and action["tool"] == "run_tests" and not step.error
            budget = {
                "steps_left": self._max_steps - number - 1,
                "test_runs_left": tests_left,
            }
            told = f"{clean(step.text)}\n\n{left(budget)}"
            if action is not None:
                given = action.get("arguments")
                call = {
                    "tool": clean(action["tool"]),
                    "arguments": clean(dict(given) if isinstance(given, Mapping) else {}),
                }
                id = f"call_{number}"
                message = assistant(call, id=id, content=clean(step.said))
                if not self.as_text:
                    message["tool_calls"][0]["function"]["arguments"] = call["arguments"]
                answer = {"role": "tool", "tool_call_id": id, "content": told}
            else:
                written = step.said or (step.action if isinstance(step.action, str) else "")
                message = {"role": "assistant", "content": clean(written)}
                answer = {"role": "user", "content": told}
            if step.reasoning:
                message["reasoning_content"] = clean(step.reasoning)
            yield message, reward, step
            yield answer, 0.0, None


def _final_part(verdict: Mapping[str, Any] | None) -> float | None:
    """Of the cases of the final grading."""
    if verdict is None:
        return None
    found = Verdict.from_dict(dict(verdict))
    passed, cases = found.counts()
    return passed / cases if cases else float(found.passed)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


# --- pairs ------------------------------------------------------------------------------------


def _pairs(runs: Sequence[_Run], spec: RewardSpec, made: Exported) -> Iterator[Row]:
    """Solved against failed, task by task; the shorter list is gone through again and again."""
    places: dict[str, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
    for number, run in enumerate(runs):
        for offset in run.store.offsets().values():
            line = run.store.at(offset)
            episode = line["episode"]
            if run.leaves_out(episode):
                continue
            if episode["status"] == INFRA or not episode.get("steps"):
                made.without("infra_error" if episode["status"] == INFRA else "no steps")
                continue
            task = run.task(line)
            if task is None:
                continue
            solved, failed = places.setdefault(task, ([], []))
            (solved if episode["status"] == "passed" else failed).append((number, offset))
    for solved, failed in places.values():
        if not (solved and failed):
            for _ in (*solved, *failed):
                made.without("all solved" if solved else "none solved")
            continue
        for index in range(max(len(solved), len(failed))):
            sides = [
                runs[number].made(runs[number].store.at(offset), spec)
                for number, offset in (solved[index % len(solved)], failed[index % len(failed)])
            ]
            chosen, rejected = sides
            if chosen is None or rejected is None:
                continue
            if not (any(chosen.row["mask"]) and any(rejected.row["mask"])):
                made.without("no steps")
            elif chosen.cut_off or rejected.cut_off:
                made.without("a call was cut off, and pairs have no mask")
            else:
                yield _pair(made.taken(chosen), made.taken(rejected))


def _pair(chosen: Row, rejected: Row) -> Row:
    sides = {"chosen": chosen, "rejected": rejected}
    row: Row = {name: chosen[name] for name in ("challenge", "paper", "lines", "content_hash")}
    row["prompt"] = chosen["messages"][:2]
    for side, one in sides.items():
        row[side] = one["messages"][2:]
    for side, one in sides.items():
        for name in ("run", "sample", "agent", "model", "status", "code", "reward"):
            row[f"{side}_{name}"] = one[name]
    row["tools"] = chosen["tools"]
    return row


def outcomes(rows: Iterable[Mapping[str, Any]]) -> list[Planned]:
    """What rows of the form "rl" say about a run, for `rcb_env.report.scoring.score`."""
    names = ("challenge", "paper", "lines", "sample", "status", "own_lines")
    return [Planned(**{name: row[name] for name in names}) for row in rows]
