"""Steps of an environment, with each sandbox, beside the ways they are often done: a container or interpreter for each.

File actions and resets touch no container by design: the workspace is in the driver's memory, and code only ever runs in
fresh copies that are sent to a box. They are measured with either sandbox all the same, as an agent meets them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.measure import Job, Result, Row, take_turns
from benchmarks.plain import Plain
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.grading.grader import Grader

_CHALLENGE = "DyT/forward"
_FRESH, _WARM = "tests, fresh interpreter", "tests, warm process"
_EXEC, _RUN = "docker exec", "docker run --rm"
_JUDGED = "run_tests, wrong code"
_BEYOND = "beyond the tests in a warm process, ms"
_MANY = 1_000_000


def run(makers: Sequence[str], *, quick: bool) -> Result:
    """Resets, file actions and test runs in turn."""
    many, some, few = (20, 4, 2) if quick else (1000, 150, 15)
    challenge = load_dataset().challenge(_CHALLENGE)
    write = {"tool": "write_region", "arguments": {"code": challenge.reference}}
    wrong = {"tool": "write_region", "arguments": {"code": _wrong(challenge)}}
    test = {"tool": "run_tests", "arguments": {}}
    jobs: dict[str, tuple[Job, int]] = {}
    rows: list[tuple[str, str, str]] = []
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(Plain(challenge))
        plain.warm()
        has_docker = "docker" in makers
        for maker in makers:
            grader = stack.enter_context(Grader(maker))
            edited, tested, judged, reset = (_env(maker, grader) for _ in range(4))
            _step(tested, write)
            _step(judged, wrong)
            for _ in range(3):
                _step(tested, test)
                _step(judged, test, "failed")
            files = itertools.cycle(
                [
                    {"tool": "read_file", "arguments": {"path": challenge.file}},
                    {"tool": "search", "arguments": {"pattern": "def .*forward"}},
                    write,
                    {"tool": "list_files", "arguments": {}},
                    {"tool": "undo", "arguments": {}},
                ]
            )
            jobs[f"{maker}: file action"] = (partial(_next_step, edited, files), many)
            jobs[f"{maker}: reset"] = (reset.reset, many)
            jobs[f"{maker}: run_tests"] = (partial(_step, tested, test), some)
            jobs[f"{maker}: {_JUDGED}"] = (partial(_step, judged, test, "failed"), some)
            rows += [
                (f"{maker}: file action", _EXEC if has_docker else "", "p50 <= 0.5 ms"),
                (f"{maker}: reset", _RUN if has_docker else "", "p50 <= 4 ms"),
                (f"{maker}: run_tests", _FRESH, "p50 <= warm + 15 ms"),
                (f"{maker}: {_JUDGED}", _FRESH, "p50 <= warm + 15 ms"),
            ]
        if has_docker:
            execute, start = stack.enter_context(_containers(challenge.paper.image))
            jobs[_EXEC] = (execute, some if quick else 60)
            jobs[_RUN] = (start, few)
            rows += [(_EXEC, "", ""), (_RUN, "", "")]
        jobs[_WARM] = (plain.warm, some)
        jobs[_FRESH] = (plain.fresh, few)
        rows += [(_WARM, "", ""), (_FRESH, "", "")]
        samples = take_turns(jobs)
    result = Result(
        "actions",
        f"one step of {_CHALLENGE}",
        tuple(Row(what, samples[what], beside, target) for what, beside, target in rows),
        notes=(
            "File actions and resets touch no container: the workspace is in memory.",
            "run_tests runs all cases in one box and judges in another what differs from the reference's outputs: of "
            "right code nothing, of the wrong code nearly all. A warm process runs and compares all of them in one.",
        ),
    )
    told = {row["what"]: row["p50_ms"] for row in result.to_dict()["rows"]}
    beyond = {
        f"{maker}: {what} {_BEYOND}": told[f"{maker}: {what}"] - told[_WARM]
        for maker in makers
        for what in ("run_tests", _JUDGED)
    }
    targets = dict.fromkeys(beyond, "<= 15")
    return Result(result.name, result.about, result.rows, beyond, result.notes, targets)


def _env(maker: str, grader: Grader) -> ResearchCodeEnv:
    env = ResearchCodeEnv(
        _CHALLENGE, max_steps=_MANY, max_test_runs=_MANY, sandbox=maker, grader=grader
    )
    env.reset()
    return env


def _next_step(env: ResearchCodeEnv, actions: Iterator[dict[str, Any]]) -> None:
    _step(env, next(actions))


def _wrong(challenge: Challenge) -> str:
    code = challenge.reference.replace("torch.tanh(", "1.5 * torch.tanh(")
    if code == challenge.reference:
        raise RuntimeError("the benchmark's wrong code is the reference")
    return code


def _step(env: ResearchCodeEnv, action: dict[str, Any], status: str = "passed") -> None:
    _, _, _, _, info = env.step(action)
    if info["error"] or info["tests"].get("status", status) != status:
        raise RuntimeError(f"{action['tool']} of the benchmark has failed: {info['tests']}")


@contextlib.contextmanager
def _containers(image: str) -> Iterator[tuple[Job, Job]]:
    """`docker exec` of a file action in a container that runs, and `docker run --rm` of a command that does nothing.

    Both go through the engine's API, which is quicker than the command line.
    """
    from rcb_env.sandbox import docker_images
    from rcb_env.sandbox.engine import engine
    from rcb_env.sandbox.owners import LABEL, owner

    tag = docker_images.tag(image)
    settings: dict[str, Any] = {"network_mode": "none", "labels": {LABEL: owner()}}
    containers = engine().containers
    container = containers.run(tag, ["sleep", "7200"], detach=True, init=True, **settings)
    try:
        yield (
            lambda: container.exec_run(["cat", "/etc/passwd"]),
            lambda: containers.run(tag, ["true"], remove=True, **settings),
        )
    finally:
        container.remove(force=True)
