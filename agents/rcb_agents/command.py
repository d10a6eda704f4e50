"""Any program as an agent: ``--agent "command:LINE"`` runs LINE in a folder and takes what it wrote.

The program gets the challenge's files in a scratch folder, in which it is started by a shell, what
it is to do in ``PROMPT.md`` and, where the task has it, the paper in ``PAPER.md``. The same is told
by environment variables:

    RCB_PROMPT         the text of PROMPT.md          RCB_FILE       the file with the missing part
    RCB_PROMPT_FILE    path of PROMPT.md              RCB_CHALLENGE  id of the challenge
    RCB_PAPER_FILE     path of PAPER.md, or empty     RCB_SEED       of this episode
    RCB_WORKSPACE      the folder                     RCB_MODEL      what --model said, or empty
    RCB_USAGE_FILE     where it may report usage      RCB_BASE_URL   what --base-url said, or empty

When it ends, the region is what stands in the file between the text before and the text after it;
if these are not there byte for byte, the attempt is invalid ("frame_changed"). Nothing else in the
folder is graded; the record "command" of the trajectory names the other files that were changed,
deleted, replaced, made or given another mode, ten of them at most.

It runs in a bubblewrap box that has the network and no answers (confinement.py), unless the task
says otherwise, and the record says which. What it reports in RCB_USAGE_FILE (usage_reports.py)
counts however it ended. A program that could do nothing, for no fault of its model, says so there
with an ``error``, or ends with code 75; then nobody's answer was wrong.

Guarantees: a wall-time budget ends the program, and what is there is graded; its prompt and its
output are in the trajectory; the folder is removed.
Not covered: run_tests is not offered to it; it is not stopped when tokens or money are spent, only
afterwards. Without a box it can read the answers where the papers are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import ClassVar

from rcb_agents.confinement import confined
from rcb_agents.program import Ended, run
from rcb_agents.usage_reports import Report
from rcb_agents.workplace import PROMPTS_VERSION, Workplace
from rcb_env import AgentError, BudgetSpent, NoAnswer, Task, ToolCall, Turn, Usage, UsageError

_MAX_PATHS = 10  # of what was done to other files
_NOT_STARTED = (126, 127)  # what a shell says of a command it cannot run
_NOT_ITS_FAULT = 75  # EX_TEMPFAIL of sysexits.h
_SILENT = "the command changed nothing and reported no model call: was a model asked at all?"


@dataclass(frozen=True)
class Command:
    """Any program: ``command:LINE`` runs LINE in a folder with the files, in a box with the network."""

    line: str
    """For ``/bin/sh -c``."""

    name: ClassVar[str] = "command"
    whole_setting: ClassVar[str] = "line"  # all that follows the name, commas included
    prompts_version: ClassVar[str] = PROMPTS_VERSION

    def __post_init__(self) -> None:
        """Refuse an empty line.

        Raises:
            ValueError: there is no command.
        """
        if not self.line.strip():
            raise ValueError('there is no command; write --agent "command:my-agent --flag"')

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Run it, then hand in what it left."""
        with Workplace(task) as place:
            task.record("prompt", {"text": place.prompt})
            ended = self._run(place, task)
            report = place.report()
            with _counted(task, report.usage):
                task.record("command", _about(task, ended, report, place.elsewhere(task)))
                code = place.region(task)
                if code != task.placeholder:
                    turn = yield ToolCall("write_region", {"code": code})
                    if turn.error:
                        raise NoAnswer("no_code", turn.text)
                else:
                    self._refuse_failures(ended, report)
                    if not report.usage.calls:
                        task.record("warning", {"text": _SILENT})
        if ended.out_of_time:
            raise BudgetSpent("wall_time_spent")
        yield ToolCall("submit")

    def _run(self, place: Workplace, task: Task) -> Ended:
        environment = place.environment(task)
        command = ["/bin/sh", "-c", self.line]
        if task.rules.agent_sandbox != "none":
            command = confined(
                self.line,
                workplace=place.shared,
                mounts=task.rules.agent_mounts,
                answers=task.answer_folders,
                environment=environment,
            )
        return run(command, place.path, environment, task)

    def _refuse_failures(self, ended: Ended, report: Report) -> None:
        """Raise where a program that changed nothing failed, rather than its model."""
        if report.error:
            raise AgentError(f"the command says that it could not work: {report.error}")
        if ended.out_of_time:
            return
        said = f"its last line: {ended.last_line}" if ended.last_line else "no output"
        if ended.code in _NOT_STARTED:
            raise UsageError(f"the command cannot be run: {ended.last_line or self.line}")
        if ended.code:
            what = (
                "says that it could not work" if ended.code == _NOT_ITS_FAULT else "changed nothing"
            )
            raise AgentError(f"the command ended with code {ended.code} and {what}; {said}")


def _about(task: Task, ended: Ended, report: Report, elsewhere: list[str]) -> dict[str, object]:
    about: dict[str, object] = {"exit_code": ended.code, "out_of_time": ended.out_of_time}
    about["sandbox"] = task.rules.agent_sandbox
    if elsewhere:
        about["elsewhere"] = {"count": len(elsewhere), "paths": elsewhere[:_MAX_PATHS]}
    if report.unreadable:
        about["unreadable_report"] = report.unreadable
    return about


@contextlib.contextmanager
def _counted(task: Task, usage: Usage) -> Iterator[None]:
    """Count what was reported, whatever comes of the attempt."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(BudgetSpent):
            task.spend(usage)
        raise
    task.spend(usage)
