"""Challenges as a Gymnasium environment: ``gymnasium.make("rcb/Challenge-v0", challenge=...)``.

The agent looks at files, edits the region, runs tests and submits (`rcb_env.env.actions`). Observations
are texts with the budget left. Without a fixed challenge every reset draws one, from the seed alone.
What a step earns is declared (`rcb_env.env.rewards`): by default 1.0 with the last step if the final
verdict is "passed", else 0.0.

Guarantees: nothing an agent does raises; a wrong action is an error observation and uses up a step.
Only mistakes of the caller raise: a step before reset or after the end, unknown settings, and a
machine without any sandbox. Same seed and actions, same observations: no wall-clock value is in an
observation or an info, but for the key "timings" where it was asked for. `submit` ends with
terminated, a spent budget with truncated (what is there is graded). A box that dies is replaced and
the step tried once more; trouble of the machinery that stays ends with truncated, no outcome in the
reward and the status "infra_error". Boxes start when code first has to run, in the process where it
has to run. A snapshot or a fork takes microseconds at any step; two states with one ``state_hash``
have the same future.
Not covered: what an action does (`rcb_env.env.acting`); many environments at once (`rcb_env.env.vector`); other forms of
observations and actions (`rcb_env.wrappers`); playing an agent (`rcb_env.play.episode`).
"""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded

from rcb_env import plugins
from rcb_env import sandbox as sandboxes
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.scopes import Scope
from rcb_env.dataset.selection import OPTIONS
from rcb_env.env import acting, rewards, words
from rcb_env.env.actions import OutOfBudget, ToolCall, parse
from rcb_env.env.drawing import Drawing
from rcb_env.env.settings import Rules, Shown, at_least, fingerprint, keywords_of, with_keywords
from rcb_env.env.spaces import ActionSpace, TextSpace, observations, own_copy, plain_spec
from rcb_env.env.state import Done, EnvSnapshot
from rcb_env.env.verdicts import Verdicts
from rcb_env.env.workspace import Workspace, code_hash
from rcb_env.errors import UsageError, unknown
from rcb_env.grading.grader import Grader, Verdict
from rcb_env.grading.shared import GRADERS
from rcb_env.sandbox import machine

MIN_TEXT_CHARS = 200


class ResearchCodeEnv(gymnasium.Env[dict[str, Any], Any]):
    """One challenge at a time.

    Args:
        challenge: id, such as ``"DyT/forward"``; None: every reset draws one among those that the settings leave.
        dataset: "bundled", the path of a data set's folder, or a loaded data set.
        scope: "region", "file", "paper", "library" or "open": which challenges of it; None: as the id or the data set's name says.
        reward: what a step earns, see `rcb_env.env.rewards`: "sparse", "cases:step_cost=0.01", a dict.
        max_text_chars: longest text of an observation; longer ones are cut with a mark.
        timings: whether infos have the key "timings", in seconds; these differ from run to run.
        sandbox: where code runs: "auto", or the name of one. Environments of one process that name
            the same one share its boxes.
        boxes: how many of these there may be; None: as many as the machine gives, see `rcb_env.sandbox.machine`.
        grader: grades instead of the shared one. It stays the caller's to close, and is not used in
            a forked or spawned process.
        render_mode: None, "ansi" (`render` returns a text) or "human" (printed at every step).
        shown: what an agent is shown.
        rules: the rules it plays by; budgets are held by who plays it, not here.
        settings: fields of `rcb_env.dataset.selection.Selection` by name, which say what is drawn from: ``papers``,
            ``challenges``, ``min_lines``, ``max_lines``, ``split``, ``difficulty``, ``difficulty_by``, ``variants``; and fields of `Shown` and
            `Rules`, which change the two: ``feedback``, ``max_steps``, ``max_test_runs``, ``paper``, ``with_hint``,
            ``with_context``, ``interface``; and ``with_paper``, True or False.

    Raises:
        UsageError: a setting is unknown or out of range, or no challenge fits.
    """

    # An instance attribute to Gymnasium, whose class it is declared in.
    _spec: EnvSpec | None = None
    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        challenge: str | None = None,
        *,
        dataset: str | Path | Dataset = "bundled",
        scope: Scope | None = None,
        reward: str | Mapping[str, Any] = "sparse",
        max_text_chars: int = 20_000,
        timings: bool = False,
        sandbox: str = "auto",
        boxes: int | None = None,
        grader: Grader | None = None,
        render_mode: str | None = None,
        shown: Shown = Shown(),  # noqa: B008 - frozen
        rules: Rules = Rules(),  # noqa: B008 - frozen
        **settings: Any,
    ) -> None:
        among = {name: settings.pop(name) for name in OPTIONS if name in settings}
        named = (*keywords_of(ResearchCodeEnv), *OPTIONS[1:])
        self._shown, self._rules = with_keywords(shown, rules, settings, others=named)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown("render mode", str(render_mode), self.metadata["render_modes"])
        max_text_chars = at_least("max_text_chars", max_text_chars, MIN_TEXT_CHARS)
        self._reward = rewards.reward_spec(reward)
        self._drawing = Drawing(dataset, scope=scope, challenge=challenge, **among)
        self._timings = timings
        checked = None if boxes is None else machine.boxes(boxes)
        if grader is None and sandbox not in ("auto", *plugins.names(GRADERS)):
            sandboxes.find(sandbox)  # a wrong name is told now, and not at the first grading
        self._verdicts = Verdicts(self._reward, sandbox, checked, grader)
        self.render_mode = render_mode
        self._text = TextSpace(max_text_chars)
        self.action_space = ActionSpace()
        self.observation_space = observations(self._rules, self._text.max_length)
        # Two environments that differ in their budgets alone are in one state when the same is left.
        told = fingerprint(replace(self._rules, max_steps=1, max_test_runs=0))
        shaping = [told, max_text_chars, self._reward.to_dict()]
        self._settings = json.dumps(shaping, sort_keys=True)
        self._challenge = self._drawing.only
        self._workspace: Workspace | None = None
        self._state: EnvSnapshot | None = None

    # --- Gymnasium ----------------------------------------------------------------------------

    @property  # to Gymnasium a plain attribute, which `make` sets
    def spec(self) -> EnvSpec | None:
        """What `gymnasium.make` makes this again from; fits into JSON unless objects were given."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = plain_spec(spec)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode.

        Args:
            seed: of the draw of a challenge, for this reset and those after it without a seed.
            options: for this episode only, any of ``challenge``, ``challenges``, ``papers``, ``split``, ``difficulty``,
                ``difficulty_by``, ``variants``, ``min_lines`` and ``max_lines``; they take the place of the environment's own.

        Raises:
            UsageError: an option is unknown, or no challenge fits.
        """
        super().reset(seed=seed)
        self._challenge = self._drawing.draw(options, self.np_random)
        self._workspace = Workspace(self._challenge, self._shown)
        where = self._workspace.region_lines()
        told = words.assignment(self._challenge, where, self._shown, self._rules)
        self._state = EnvSnapshot(
            self._challenge.id,
            self._challenge.content_hash,
            self._workspace.snapshot(),
            text=self._text.clip(told),
        )
        self._show()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Do one tool call; see `rcb_env.env.actions.parse` for its form.

        Returns:
            Observation, reward, terminated, truncated, and the info: ``challenge`` (id), ``error``
            (whether the call was wrong), ``tests`` (after run_tests: what its text tells, as data;
            else empty), ``verdict`` (after the last step: the final verdict without timings; else
            empty), ``code_hash`` (SHA-256 of the region) and ``state_hash`` (of all that later
            steps depend on).

        Raises:
            ResetNeeded: before `reset`, or after the episode has ended.
            SandboxUnavailable: no sandbox works on this machine.
        """
        began = time.perf_counter()
        state, workspace = self._running()
        call = parse(action)
        done = acting.act(call, action, state, workspace, self._rules, self._grade)
        reward = self._advance(state, done, words.on_one_line(call, action))
        self._show()
        over = done.verdict is not None
        info = self._info()
        if self._timings:
            info["timings"] = done.seconds(time.perf_counter() - began)
        submitted = over and done.submitted
        return self._observation(), reward, submitted, over and not submitted, info

    def render(self) -> str | None:
        """The last step as a text in mode "ansi"; "human" has printed it already."""
        return self._frame() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End the episode. Boxes are shared and stay for other environments. Idempotent."""
        self._state = None

    # --- beside Gymnasium ---------------------------------------------------------------------

    @property
    def challenge(self) -> Challenge:
        """What is to be solved.

        Raises:
            ResetNeeded: none has been drawn yet.
        """
        if self._challenge is None:
            raise ResetNeeded("call reset() first: it draws the challenge")
        return self._challenge

    @property
    def code(self) -> str:
        """The region's present text; what is graded."""
        workspace = self._workspace or Workspace(self.challenge, self._shown)
        return workspace.code

    @property
    def verdict(self) -> Verdict | None:
        """The final verdict, timings included; None while the episode goes on."""
        return self._state.verdict if self._state else None

    @property
    def state_hash(self) -> str:
        """Of all that later observations and rewards depend on; the same on any machine.

        Raises:
            ResetNeeded: there is no episode.
        """
        if self._state is None or self._workspace is None:
            raise ResetNeeded("call reset() first: without an episode there is no state")
        stands = self._state.stands(self._rules)
        whole = f"{self._settings}\n{stands}\n{self._workspace.state_hash}"
        return hashlib.sha256(whole.encode()).hexdigest()

    def charge(self, tokens: int) -> None:
        """Report tokens that were spent on the next action; the reward may have them cost.

        Raises:
            ResetNeeded: there is no episode, or it is over.
        """
        state, _ = self._running()
        self._state = replace(state, tokens=state.tokens + at_least("tokens", tokens, 0))

    def will_grade(self, action: object) -> bool:
        """Whether this action, as the next step, has to run code in a box."""
        call = parse(action)
        if isinstance(action, OutOfBudget):
            return True
        if self._state is not None and acting.is_last(self._state, self._rules):
            return True
        return isinstance(call, ToolCall) and call.tool in ("run_tests", "submit")

    def snapshot(self) -> EnvSnapshot:
        """The episode's present state; it never changes, and costs nothing to keep.

        Raises:
            ResetNeeded: there is no episode.
        """
        if self._state is None:
            raise ResetNeeded("call reset() before snapshot()")
        return self._state

    def restore(self, snapshot: EnvSnapshot) -> tuple[dict[str, Any], dict[str, Any]]:
        """Go on from a snapshot, of this environment or of another one with the same settings.

        Returns:
            The observation and the info that `reset` or `step` returned there, without timings.

        Raises:
            UsageError: the snapshot is of a challenge that this environment does not have, or
                beyond its budgets.
            TypeError: it is no snapshot of such an environment.
        """
        if not isinstance(snapshot, EnvSnapshot):
            raise TypeError(
                f"restore takes what snapshot() returned, an EnvSnapshot, not {snapshot!r:.80}"
            )
        if snapshot.steps > self._rules.max_steps or snapshot.test_runs > self._rules.max_test_runs:
            raise UsageError("this snapshot is of an environment with larger budgets")
        challenge, workspace = self._challenge, self._workspace
        if challenge is None or challenge.id != snapshot.challenge:
            if (fixed := self._drawing.fixed) is not None:
                raise UsageError(
                    f"this snapshot is of {snapshot.challenge}, the environment of {fixed}"
                )
            challenge, workspace = self._drawing.challenge(snapshot.challenge), None
        if challenge.content_hash != snapshot.content_hash:
            raise UsageError(
                f"this snapshot is of other files or tests of {challenge.id}: use the same data set"
            )
        self._challenge = challenge
        self._workspace = workspace or Workspace(challenge, self._shown)
        self._workspace.restore(snapshot.workspace)
        self._state = snapshot
        return self._observation(), self._info()

    def fork(self) -> ResearchCodeEnv:
        """Another environment in the same state, which goes its own way from here.

        Boxes, papers and everything else that never changes are shared.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.action_space = own_copy(self.action_space) or ActionSpace()
        twin.observation_space = own_copy(self.observation_space) or observations(
            self._rules, self._text.max_length
        )
        twin._np_random = copy.deepcopy(self._np_random)
        if self._challenge is not None and self._workspace is not None:
            twin._workspace = Workspace(self._challenge, self._shown)
            twin._workspace.restore(self._workspace.snapshot())
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> ResearchCodeEnv:
        """A fork."""
        twin = memo[id(self)] = self.fork()
        return twin

    # --- inside -------------------------------------------------------------------------------

    def _running(self) -> tuple[EnvSnapshot, Workspace]:
        if self._state is None or self._workspace is None:
            raise ResetNeeded("call reset() before step()")
        if self._state.verdict is not None:
            raise ResetNeeded("the episode is over; call reset() to start another one")
        return self._state, self._workspace

    def _advance(self, state: EnvSnapshot, done: Done, action: str) -> float:
        """Go on to the state after an action; returns what it earns."""
        _, workspace = self._running()
        facts = rewards.Facts(
            lines=self.challenge.lines,
            tests=done.tests,
            ran_tests=done.tested is not None,
            tokens=state.tokens,
            verdict=done.verdict,
            worth=self._verdicts.worth(self.challenge, done.verdict),
        )
        reward, potential = rewards.pay(self._reward, state.potential, facts)
        self._state = state.after(
            done,
            workspace=workspace.snapshot(),
            potential=potential,
            action=action,
            text=self._text.clip(done.text),
        )
        return reward

    def _grade(self, final: bool) -> Verdict:
        return self._verdicts.of(self.challenge, self.code, final=final)

    def _observation(self) -> dict[str, Any]:
        assert self._state is not None  # set by reset, step and restore
        return self._state.observation(self._rules)

    def _info(self) -> dict[str, Any]:
        assert self._state is not None
        return self._state.info(code_hash=code_hash(self.code), state_hash=self.state_hash)

    def _frame(self) -> str:
        return words.frame(self._state, self._rules, self._challenge)

    def _show(self) -> None:
        if self.render_mode == "human":
            words.show(self._frame())


def register() -> None:
    """What the entry point of the group ``gymnasium.envs`` names, for a Gymnasium that loads these.

    There is nothing left to do: importing `rcb_env`, which this module does, has registered.
    """
