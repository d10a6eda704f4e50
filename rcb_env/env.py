"""One challenge as a Gymnasium environment: ``gymnasium.make("rcb/Challenge-v0", challenge=...)``.

The agent looks at files, edits the region, runs tests and submits (`rcb_env.actions`). Observations
are texts with the budget left. The reward comes with the last step: 1.0 if the final verdict is
"passed", else 0.0.

Guarantees: nothing an agent does raises; a wrong action is an error observation and uses up a step.
Only mistakes of the caller raise: a step before reset or after the end, unknown settings, and a
machine without any sandbox. Same actions, same observations: no wall-clock value is in an
observation or an info. `submit` ends with terminated, a spent budget of steps with truncated (what
is there is graded). Trouble of the machinery ends with truncated, reward 0 and the status
"infra_error". Boxes start when code first has to run, in the process where it has to run.
Not covered: many environments at once (`rcb_env.vector`); playing an agent (`rcb_env.episode`).
"""

from __future__ import annotations

import copy
import functools
import hashlib
import multiprocessing
import multiprocessing.util
import os
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, SupportsInt, cast, get_args

import gymnasium
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from rcb_env import rewards
from rcb_env.actions import TOOLS, ActionSpace, TextSpace, ToolCall, parse
from rcb_env.errors import UsageError, unknown
from rcb_env.grading import Grader, Verdict
from rcb_env.papers import Challenge, Dataset, load_dataset
from rcb_env.workspace import Snapshot, Workspace, WorkspaceError

Feedback = Literal["outcome", "counts", "names", "messages", "full"]
FEEDBACK_LEVELS: tuple[Feedback, ...] = get_args(Feedback)
"""What `run_tests` tells; each level tells what the ones before it tell, and more."""

MIN_TEXT_CHARS = 200
_OUTPUT_CHARS = 2_000  # of stdout and of stderr, in the feedback
_TELLS = {
    "outcome": "whether all of them pass",
    "counts": "how many of them pass",
    "names": "which of them pass",
    "messages": "which of them fail and how",
    "full": "which of them fail, how, and the expected and the actual values",
}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class EnvSnapshot:
    """A state of an episode, for `ResearchCodeEnv.restore`."""

    challenge: str
    workspace: Snapshot
    steps: int = 0
    test_runs: int = 0
    verdict: Verdict | None = None  # set when the episode is over
    shown: str = ""  # what `render` shows


class ResearchCodeEnv(gymnasium.Env[dict[str, Any], Any]):
    """One challenge.

    Args:
        challenge: id, such as ``"DyT/forward"``.
        dataset: "bundled", the path of a data set's folder, or a loaded data set.
        feedback: what `run_tests` tells, one of `FEEDBACK_LEVELS`.
        max_steps: actions an episode may take.
        max_test_runs: how many of them may run tests.
        max_text_chars: longest text of an observation; longer ones are cut with a mark.
        with_paper: whether the paper can be read.
        sandbox: where code runs: "auto", or the name of one. Environments of one process that name
            the same one share its boxes.
        grader: grades instead of the shared one. It stays the caller's to close, and is not used in
            a forked or spawned process.
        render_mode: None, "ansi" (`render` returns a text) or "human" (printed at every step).

    Raises:
        UsageError: a setting is unknown or out of range.
    """

    # An instance attribute to Gymnasium, whose class it is declared in.
    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        challenge: str,
        *,
        dataset: str | Path | Dataset = "bundled",
        feedback: Feedback = "messages",
        max_steps: int = 50,
        max_test_runs: int = 10,
        max_text_chars: int = 20_000,
        with_paper: bool = True,
        sandbox: str = "auto",
        grader: Grader | None = None,
        render_mode: str | None = None,
    ) -> None:
        if feedback not in FEEDBACK_LEVELS:
            raise unknown("feedback level", str(feedback), FEEDBACK_LEVELS)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown("render mode", str(render_mode), self.metadata["render_modes"])
        self._max_steps = _at_least("max_steps", max_steps, 1)
        self._max_test_runs = _at_least("max_test_runs", max_test_runs, 0)
        max_text_chars = _at_least("max_text_chars", max_text_chars, MIN_TEXT_CHARS)
        found = dataset if isinstance(dataset, Dataset) else _loaded(str(dataset))
        self._challenge = found.challenge(challenge)
        self._feedback: Feedback = feedback
        self._with_paper = with_paper
        self._sandbox = sandbox
        self._grader = grader
        self._grader_pid = os.getpid()
        self.render_mode = render_mode
        self._text = TextSpace(max_text_chars)
        self.action_space = ActionSpace()
        self.observation_space = cast(
            "spaces.Space[dict[str, Any]]",
            spaces.Dict(
                {
                    "text": self._text,
                    "steps_left": spaces.Discrete(self._max_steps + 1),
                    "test_runs_left": spaces.Discrete(self._max_test_runs + 1),
                }
            ),
        )
        self._workspace = self._new_workspace()
        self._state: EnvSnapshot | None = None

    # --- Gymnasium ----------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode. Nothing here is random; the seed only seeds `np_random`.

        Raises:
            UsageError: there are options; this environment has none.
        """
        super().reset(seed=seed)
        if options:
            raise UsageError(f"reset has no option {next(iter(options))!r}; leave options out")
        self._workspace = self._new_workspace()
        text = self._text.clip(self._assignment())
        self._state = EnvSnapshot(self._challenge.id, self._workspace.snapshot(), shown=text)
        self._show()
        return self._observation(text), self._info()

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Do one tool call; see `rcb_env.actions.parse` for its form.

        Returns:
            Observation, reward, terminated, truncated, and the info: ``challenge`` (id), ``error``
            (whether the call was wrong), ``tests`` (after run_tests: what its text tells, as data;
            else empty), ``verdict`` (after the last step: the final verdict without timings; else
            empty) and ``code_hash`` (SHA-256 of the region).

        Raises:
            ResetNeeded: before `reset`, or after the episode has ended.
            SandboxUnavailable: no sandbox works on this machine.
        """
        state = self._state
        if state is None:
            raise ResetNeeded("call reset() before step()")
        if state.verdict is not None:
            raise ResetNeeded("the episode is over; call reset() to start another one")
        call = parse(action)
        text, error = "", False
        tests: dict[str, Any] = {}
        verdict: Verdict | None = None
        runs_tests = submits = False
        if isinstance(call, str):
            text, error = call, True
        elif call.tool == "submit":
            submits = True
            verdict = self._grade(final=True)
            text = f"Submitted: {verdict.status}."
        elif call.tool == "run_tests" and state.test_runs >= self._max_test_runs:
            text, error = "run_tests: no test runs are left; edit further, or submit", True
        elif call.tool == "run_tests":
            runs_tests = True
            outcome = self._grade(final=False)
            if outcome.status == "infra_error":
                verdict = outcome
            else:
                tests = report(outcome, self._feedback)
                text = tell(tests)
        else:
            text, error = self._use(call)
        state = replace(
            state, steps=state.steps + 1, test_runs=state.test_runs + (1 if runs_tests else 0)
        )
        if verdict is None and state.steps >= self._max_steps:
            verdict = self._grade(final=True)
            text = f"[No steps are left. Graded as it stands: {verdict.status}.]\n{text}"
        if verdict is not None and verdict.status == "infra_error":
            text = f"[The sandbox failed: {verdict.message}. The episode ends without a score.]"
            submits = False
        text = self._text.clip(text)
        self._state = replace(
            state,
            workspace=self._workspace.snapshot(),
            verdict=verdict,
            shown=f"{_written(call, action)}\n{text}",
        )
        self._show()
        over = verdict is not None
        reward = rewards.sparse(verdict.status) if verdict is not None else 0.0
        info = self._info(error=error, tests=tests)
        return self._observation(text), reward, over and submits, over and not submits, info

    def render(self) -> str | None:
        """The last step as a text in mode "ansi"; "human" has printed it already."""
        return self._frame() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End the episode. Boxes are shared and stay for other environments. Idempotent."""
        self._state = None

    # --- beside Gymnasium ---------------------------------------------------------------------

    @property
    def challenge(self) -> Challenge:
        """What is to be solved."""
        return self._challenge

    @property
    def code(self) -> str:
        """The region's present text; what is graded."""
        return self._workspace.code

    @property
    def verdict(self) -> Verdict | None:
        """The final verdict, timings included; None while the episode goes on."""
        return self._state.verdict if self._state else None

    def snapshot(self) -> EnvSnapshot:
        """The episode's present state; it never changes, and costs nothing to keep.

        Raises:
            ResetNeeded: there is no episode.
        """
        if self._state is None:
            raise ResetNeeded("call reset() before snapshot()")
        return self._state

    def restore(self, snapshot: EnvSnapshot) -> tuple[dict[str, Any], dict[str, Any]]:
        """Go on from a snapshot, of this environment or of another one for the same challenge.

        Returns:
            An observation and an info, as `reset` does.

        Raises:
            UsageError: the snapshot is of another challenge or beyond this one's budgets.
        """
        if snapshot.challenge != self._challenge.id:
            raise UsageError(
                f"this snapshot is of {snapshot.challenge}, the environment of {self._challenge.id}"
            )
        if snapshot.steps > self._max_steps or snapshot.test_runs > self._max_test_runs:
            raise UsageError("this snapshot is of an environment with larger budgets")
        self._workspace.restore(snapshot.workspace)
        self._state = snapshot
        return self._observation(self._text.clip(snapshot.shown)), self._info()

    def __deepcopy__(self, memo: dict[int, Any]) -> ResearchCodeEnv:
        """A fork of the episode; what never changes, and the grader, are shared."""
        for shared in (self._grader, self._challenge, self._state):
            memo[id(shared)] = shared
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(
            {
                key: copy.deepcopy(value, memo)
                for key, value in self.__dict__.items()
                if key != "_workspace"
            }
        )
        twin._workspace = twin._new_workspace()
        twin._workspace.restore(self._workspace.snapshot())
        return twin

    def __getstate__(self) -> dict[str, Any]:
        # Boxes belong to a process; where this is unpickled, the shared grader takes over.
        return {**self.__dict__, "_grader": None}

    # --- inside -------------------------------------------------------------------------------

    def _new_workspace(self) -> Workspace:
        return Workspace(self._challenge, with_paper=self._with_paper)

    def _use(self, call: ToolCall) -> tuple[str, bool]:
        try:
            return str(getattr(self._workspace, call.tool)(**call.arguments)), False
        except WorkspaceError as error:
            return str(error), True

    def _grade(self, *, final: bool) -> Verdict:
        grader = self._grader
        if grader is None or self._grader_pid != os.getpid():
            grader = _shared_grader(self._sandbox)
        return grader.grade(self._challenge, self._workspace.code, final=final)

    def _observation(self, text: str) -> dict[str, Any]:
        state = self._state
        assert state is not None  # set by reset, step and restore
        return {
            "text": text,
            "steps_left": self._max_steps - state.steps,
            "test_runs_left": self._max_test_runs - state.test_runs,
        }

    def _info(self, *, error: bool = False, tests: dict[str, Any] | None = None) -> dict[str, Any]:
        # Vector environments merge infos key by key: a dict here and None there breaks them, and
        # so does a number here and None there. What is absent is left out, or an empty dict.
        verdict = self.verdict
        told = verdict.to_dict() if verdict else {}
        told.pop("timings", None)
        return {
            "challenge": self._challenge.id,
            "error": error,
            "tests": tests or {},
            "verdict": {key: value for key, value in told.items() if value is not None},
            "code_hash": _sha256(self.code),
        }

    def _assignment(self) -> str:
        challenge, paper = self._challenge, self._challenge.paper
        reading = " read_paper shows it." if self._with_paper else ""
        return (
            f'Write the missing code "{challenge.hint}" of {challenge.file}. It belongs to the paper'
            f' "{paper.title}".{reading}\n'
            f"The region to write is {self._workspace.region_lines()}; now it holds a placeholder."
            f" About {challenge.lines} line(s) of code are missing, at an indent of"
            f" {len(challenge.region.indent)}. Only the region may change: other edits are"
            " refused.\n"
            "Act with one tool call per step, for instance"
            ' {"tool": "read_file", "arguments": {"path": "'
            f'{challenge.file}"}}}}. The tools: {", ".join(tool.name for tool in TOOLS)}.\n'
            f"You have {self._max_steps} steps and {self._max_test_runs} test runs; a wrong call"
            f" uses up a step. run_tests tells {_TELLS[self._feedback]}. submit ends the episode:"
            " the region is then tested with other inputs."
        )

    def _frame(self) -> str:
        if self._state is None:
            return f"{self._challenge.id}: no episode"
        state = self._state
        heading = (
            f"{self._challenge.id}  step {state.steps}/{self._max_steps}"
            f"  tests {state.test_runs}/{self._max_test_runs}"
        )
        # What an agent wrote must not reach a terminal as control sequences.
        return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", f"{heading}\n{state.shown}\n")

    def _show(self) -> None:
        if self.render_mode == "human":
            encoding = sys.stdout.encoding or "utf-8"
            frame = self._frame().encode(encoding, "backslashreplace").decode(encoding)
            sys.stdout.write(frame + "\n")
            sys.stdout.flush()


# --- feedback ---------------------------------------------------------------------------------


def report(verdict: Verdict, level: Feedback) -> dict[str, Any]:
    """What a feedback level reveals of a verdict, as data; what it does not reveal is absent.

    ``status`` always; ``passed`` and ``total`` from "counts"; ``cases`` (name and outcome of each)
    from "names"; from "messages" the message of each case and of the whole, ``error_class``,
    ``notes``, ``stdout`` and ``stderr``; with "full" also the ``detail`` of each case.
    """
    rank = FEEDBACK_LEVELS.index(level)
    told: dict[str, Any] = {"status": verdict.status}
    if verdict.status == "no_change":  # says nothing about the tests, so every level may tell it
        told["message"] = verdict.message
    if rank >= FEEDBACK_LEVELS.index("counts"):
        told["passed"], told["total"] = verdict.counts()
    if rank >= FEEDBACK_LEVELS.index("names"):
        told["cases"] = [{"case": case.case, "outcome": case.outcome} for case in verdict.cases]
    if rank >= FEEDBACK_LEVELS.index("messages"):
        told["message"] = verdict.message
        if verdict.error_class is not None:
            told["error_class"] = verdict.error_class
        told["notes"] = list(verdict.notes)
        told["stdout"], told["stderr"] = verdict.stdout, verdict.stderr
        for case, shown in zip(verdict.cases, told["cases"], strict=True):
            shown["message"] = case.message
            if level == "full":
                shown["detail"] = case.detail
    return told


def tell(tests: Mapping[str, Any]) -> str:
    """A `report` as a text for the agent: per case its count and its first failure."""
    heading = f"Tests: {tests['status']}"
    if tests.get("total"):
        heading += f", {tests['passed']} of {tests['total']} passed"
    lines = [f"{heading}."]
    cases = tests.get("cases", ())
    if tests.get("message") and not any(case.get("message") for case in cases):
        lines.append(tests["message"])
    for name in dict.fromkeys(case["case"] for case in cases):
        runs = [case for case in cases if case["case"] == name]
        passed = sum(case["outcome"] == "passed" for case in runs)
        lines.append(f"- {name}: {passed} of {len(runs)} passed")
        worst = next((case for case in runs if case["outcome"] != "passed"), None)
        if worst is not None:
            told = [worst.get("message", ""), worst.get("detail", "")]
            lines += [f"  {line}" for part in told if part for line in part.split("\n")]
    lines += [f"Note: {note}" for note in tests.get("notes", ())]
    for stream in ("stdout", "stderr"):
        if output := tests.get(stream, "").strip():
            cut = "[...]" if len(output) > _OUTPUT_CHARS else ""
            lines += [f"--- {stream} ---", cut + output[-_OUTPUT_CHARS:]]
    return "\n".join(lines)


# --- what environments of one process share ---------------------------------------------------


@functools.lru_cache(maxsize=8)
def _loaded(dataset: str) -> Dataset:
    return load_dataset(dataset)


class _Graders:
    """The graders of this process, by sandbox."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_sandbox: dict[str, Grader] = {}


_graders = _Graders()
_of_parents: list[_Graders] = []


def _forget_graders() -> None:
    # The boxes are the parent's: a child neither talks to them nor, by collecting the objects,
    # closes them. The lock may be held by a thread that does not exist here.
    global _graders
    _of_parents.append(_graders)
    _graders = _Graders()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_graders)


def _shared_grader(sandbox: str) -> Grader:
    with _graders.lock:
        grader = _graders.by_sandbox.get(sandbox)
        if grader is None:
            grader = _graders.by_sandbox[sandbox] = Grader(sandbox)
            # Runs at the end of this process, and also of a worker process, where atexit does not.
            multiprocessing.util.Finalize(None, grader.close, exitpriority=10)
        return grader


def register() -> None:
    """What the entry point of the group ``gymnasium.envs`` names, for a Gymnasium that loads these.

    There is nothing left to do: importing `rcb_env`, which this module does, has registered.
    """


# --- small things -----------------------------------------------------------------------------


def _at_least(name: str, value: SupportsInt, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} is {value!r}; it must be an integer of at least {least}")
    return value


def _written(call: ToolCall | str, action: object) -> str:
    """An action on one line, for `render`."""
    if isinstance(call, str):
        return f"> {type(action).__name__}"
    arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
    return f"> {call.tool}({arguments[:200]}{'...' if len(arguments) > 200 else ''})"


def _sha256(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
