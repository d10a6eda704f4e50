"""What an action does to an episode.

Guarantees: nothing an agent does raises; what is wrong with an action is told in its text. The last step is graded, and
where the sandbox failed nothing is scored.
Not covered: what a step earns (`rcb_env.env.rewards`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rcb_env.env.actions import OutOfBudget, ToolCall
from rcb_env.env.feedback import report, tell
from rcb_env.env.settings import Rules
from rcb_env.env.state import Done, EnvSnapshot
from rcb_env.env.workspace import Workspace, WorkspaceError
from rcb_env.grading.grader import Verdict

Grade = Callable[[bool], Verdict]
"""Grades the region as it stands: finally, or for run_tests."""


def act(
    call: ToolCall | str,
    action: object,
    state: EnvSnapshot,
    workspace: Workspace,
    rules: Rules,
    grade: Grade,
) -> Done:
    """Do one action.

    Args:
        call: how the action was understood, or what is wrong with it.
        action: as it came.
        state: before it.
        workspace: its files, which change.
        rules: of the episode.
        grade: how the region is graded.
    """
    done = _done(call, action, state, workspace, rules, grade)
    if done.verdict is None and is_last(state, rules):
        verdict = grade(True)
        text = f"[No steps are left. Graded as it stands: {verdict.status}.]\n{done.text}"
        done = replace(done, text=text, verdict=verdict)
    if done.verdict is not None and done.verdict.status == "infra_error":
        done = done.without_score(done.verdict)
    return done


def is_last(state: EnvSnapshot, rules: Rules) -> bool:
    """Whether the next step is the last one."""
    return state.steps + 1 >= rules.max_steps


def _done(
    call: ToolCall | str,
    action: object,
    state: EnvSnapshot,
    workspace: Workspace,
    rules: Rules,
    grade: Grade,
) -> Done:
    if isinstance(action, OutOfBudget):
        verdict = grade(True)
        spent = f"The budget of {action.budget} is spent."
        return Done(f"[{spent} Graded as it stands: {verdict.status}.]", verdict=verdict)
    if isinstance(call, str):
        return Done(call, error=True)
    if call.tool == "submit":
        verdict = grade(True)
        return Done(f"Submitted: {verdict.status}.", verdict=verdict, submitted=True)
    if call.tool != "run_tests":
        return _use(workspace, call)
    if state.test_runs >= rules.max_test_runs:
        none_left = "run_tests: no test runs are left; edit further, or submit"
        return Done(none_left, error=True)
    tested = grade(False)
    if tested.status == "infra_error":
        return Done("", tested=tested, verdict=tested)
    tests = report(tested, rules.feedback, not_shown=workspace.not_shown)
    return Done(tell(tests), tested=tested, tests=tests)


def _use(workspace: Workspace, call: ToolCall) -> Done:
    try:
        return Done(str(getattr(workspace, call.tool)(**call.arguments)))
    except WorkspaceError as error:
        return Done(str(error), error=True)
