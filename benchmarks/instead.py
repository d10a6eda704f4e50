"""Single steps of an environment, beside what is picked instead: a container that is asked for every action.

`docker exec` through the engine's API, mini-swe-agent's Docker environment and swe-rex's Docker deployment, all from
PyPI, all with the image of our boxes. They get the same work: read a file, write a file, run the tests (a fresh
interpreter in the container, which is what a command in a container is), and a new container for a new episode. None of
them can fork, or go back to a snapshot; what is nearest, a new container with the files as they are, is their reset. Each
step of ours stands beside the quickest of them.
Left out with a line: what is not installed, and all of them where there is no Docker engine.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.measure import Job, Result, Row, median, take_turns
from benchmarks.plain import Plain
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.grading.grader import Grader

CHALLENGE = "DyT/forward"
STEPS = ("reset", "read", "edit", "run_tests", "fork", "restore")
TARGETS = {
    "reset": "p50 <= 4 ms",
    "read": "p50 <= 0.5 ms",
    "edit": "p50 <= 0.5 ms",
    "run_tests": "p50 <= the tests in a warm process + 15 ms",
    "fork": "p50 <= 1 ms",
    "restore": "p50 <= 1 ms",
}
_THEIRS = {"fork": "reset", "restore": "reset"}  # what is nearest
_MANY = 1_000_000
_PACKAGES = "/opt/rcb/packages"  # where images/*/Dockerfile puts them
Shell = Callable[[str], None]
"""Runs a command in a container; raises when it fails."""


def run(makers: Sequence[str], *, quick: bool) -> Result:
    """Every step with every sandbox and every other way, in turn."""
    many, some, few = (20, 3, 2) if quick else (500, 60, 10)
    challenge = load_dataset().challenge(CHALLENGE)
    jobs: dict[str, tuple[Job, int]] = {}
    notes: list[str] = []
    with contextlib.ExitStack() as stack:
        for maker in makers:
            grader = stack.enter_context(Grader(maker))
            for step, job in _ours(maker, grader, challenge).items():
                jobs[f"{maker}: {step}"] = (job, some if step == "run_tests" else many)
        if "docker" in makers:
            plain = stack.enter_context(Plain(challenge))
            for way, start in WAYS.items():
                try:
                    shell = stack.enter_context(start(challenge, plain))
                except ImportError as error:
                    notes.append(f"{way} is left out: {error}; pip install 'rcb-env[benchmarks]'")
                    continue
                except LeftOut as error:
                    notes.append(f"{way} is left out: {error}")
                    continue
                for step, command in _commands(challenge, plain).items():
                    count = few if step == "run_tests" else some
                    jobs[f"{way}: {step}"] = (partial(shell, command), count)
                jobs[f"{way}: reset"] = (partial(_once, start, challenge, plain), few)
        else:
            notes.append("Other ways are left out: they need a Docker engine and the image.")
        samples = take_turns(jobs)
    rows = []
    for what in samples:
        who, _, step = what.partition(": ")
        others = [f"{way}: {_THEIRS.get(step, step)}" for way in WAYS]
        there = [other for other in others if who in makers and other in samples]
        quickest = min(there, key=lambda other: median(samples[other]), default="")
        rows.append(Row(what, samples[what], quickest, TARGETS[step] if who in makers else ""))
    return Result("instead", f"single steps of {CHALLENGE}", tuple(rows), notes=tuple(notes))


def _ours(maker: str, grader: Grader, challenge: Challenge) -> dict[str, Job]:
    def env() -> ResearchCodeEnv:
        made = ResearchCodeEnv(
            CHALLENGE, max_steps=_MANY, max_test_runs=_MANY, sandbox=maker, grader=grader
        )
        made.reset()
        return made

    write = {"tool": "write_region", "arguments": {"code": challenge.reference}}
    edits = itertools.cycle([write, {"tool": "undo", "arguments": {}}])
    edited, tested = env(), env()
    _do(tested, write)
    for _ in range(3):
        _do(tested, {"tool": "run_tests"})
    return {
        "reset": env().reset,
        "read": partial(_do, env(), {"tool": "read_file", "arguments": {"path": challenge.file}}),
        "edit": lambda: _do(edited, next(edits)),
        "run_tests": partial(_do, tested, {"tool": "run_tests"}),
        "fork": tested.fork,
        "restore": lambda: tested.restore(tested.snapshot()),
    }


def _do(env: ResearchCodeEnv, action: dict[str, Any]) -> None:
    _, _, _, _, info = env.step(action)
    if info["error"] or info["tests"].get("status", "passed") != "passed":
        raise RuntimeError(f"{action['tool']} of the benchmark has failed: {info['tests']}")


def _commands(challenge: Challenge, plain: Plain) -> dict[str, str]:
    file = plain.folder / "tree" / challenge.file
    content = base64.b64encode(challenge.tree()[challenge.file]).decode()
    return {
        "read": f"cat {file}",
        "edit": f"echo {content} | base64 -d > {file}",
        "run_tests": plain.program(),
    }


def _once(start: Any, challenge: Challenge, plain: Plain) -> None:
    """A new container that has answered once, and its end."""
    with start(challenge, plain) as shell:
        shell("true")


# --- other ways -------------------------------------------------------------------------------


def _arguments(plain: Plain) -> list[str]:
    """Of ``docker run``, for all: the files of the challenge, and the user that may write them."""
    return ["--user", "0", "-v", f"{plain.folder}:{plain.folder}", "-e", f"PYTHONPATH={_PACKAGES}"]


@contextlib.contextmanager
def _docker_exec(challenge: Challenge, plain: Plain) -> Iterator[Shell]:
    """The engine's API, which is quicker than its command line."""
    from rcb_env.sandbox import docker_images
    from rcb_env.sandbox.engine import engine
    from rcb_env.sandbox.owners import LABEL, owner

    container = engine().containers.run(
        docker_images.tag(challenge.paper.image),
        ["sleep", "7200"],
        detach=True,
        init=True,
        network_mode="none",
        user="0",
        labels={LABEL: owner()},
        volumes={str(plain.folder): {"bind": str(plain.folder), "mode": "rw"}},
        environment={"PYTHONPATH": _PACKAGES},
    )

    def shell(command: str) -> None:
        done = container.exec_run(["sh", "-c", command])
        if done.exit_code:
            raise RuntimeError(f"docker exec: {done.output!r}"[-300:])

    try:
        yield shell
    finally:
        container.remove(force=True)


@contextlib.contextmanager
def _mini_swe_agent(challenge: Challenge, plain: Plain) -> Iterator[Shell]:
    os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
    from minisweagent.environments.docker import DockerEnvironment

    from rcb_env.sandbox import docker_images

    logging.getLogger("minisweagent.environment").setLevel(logging.CRITICAL)
    env = DockerEnvironment(
        image=docker_images.tag(challenge.paper.image),
        run_args=["--rm", "--init", "--network", "none", *_arguments(plain)],
        interpreter=["sh", "-c"],  # a login shell would be slower still
    )

    def shell(command: str) -> None:
        done = env.execute({"command": command})
        if done["returncode"]:
            raise RuntimeError(f"mini-swe-agent: {done['output'][-300:]}")

    try:
        yield shell
    finally:
        env.cleanup()


class LeftOut(Exception):
    """This way does not work with the engine that is there; says why."""


@contextlib.contextmanager
def _swe_rex(challenge: Challenge, plain: Plain) -> Iterator[Shell]:
    """Its server runs in the container, with this Python and this environment, mounted read-only."""
    os.environ.setdefault("SWE_REX_LOG_STREAM_LEVEL", "CRITICAL")
    from swerex.deployment.docker import DockerDeployment
    from swerex.runtime.abstract import Command
    from swerex.utils.log import get_logger

    from rcb_env.sandbox import docker_images
    from rcb_env.sandbox.engine import engine

    if not engine().networks.list(names=["bridge"]):
        raise LeftOut("its server is asked over a port, and the engine has no bridge network")
    logger = get_logger("rcb-benchmark")
    logger.setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    deployment = DockerDeployment(
        image=docker_images.tag(challenge.paper.image),
        pull="never",
        startup_timeout=60,
        logger=logger,
        docker_args=[
            *(
                "-v",
                f"{sys.prefix}:{sys.prefix}:ro",
                "-v",
                f"{sys.base_prefix}:{sys.base_prefix}:ro",
            ),
            *("-e", f"PATH={sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"),
            *_arguments(plain)[:-2],  # packages of the box are not for the server's Python
        ],
    )

    def shell(command: str) -> None:
        asked = f"export PATH=/usr/local/bin:/usr/bin:/bin PYTHONPATH={_PACKAGES}; {command}"
        done = loop.run_until_complete(
            deployment.runtime.execute(Command(command=asked, shell=True, timeout=60))
        )
        if done.exit_code:
            raise RuntimeError(f"swe-rex: {done.stderr[-300:]}")

    try:
        logging.getLogger("rex-runtime").setLevel(logging.CRITICAL)
        loop.run_until_complete(deployment.start())
        yield shell
    finally:
        loop.run_until_complete(deployment.stop())
        loop.close()


WAYS: dict[str, Any] = {
    "docker exec": _docker_exec,
    "mini-swe-agent": _mini_swe_agent,
    "swe-rex": _swe_rex,
}
