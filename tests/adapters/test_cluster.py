"""Real Ray clusters of a few nodes on this machine: runs, gradings, environments, and what happens when something dies.

All nodes share this machine's processors, so nothing here says how fast a cluster is (`python -m benchmarks cluster` does).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import ray
from ray.cluster_utils import Cluster

import rcb_env
from rcb_env.adapters.trl import environment_factory
from rcb_env.runs.store import RunStore

_CODE = """import numpy as np


def scaled(x, factor):
    # <paper2code name="scaled">
    y = np.asarray(x) * factor
    return y + 1
    # </paper2code name="scaled">


def halved(x):
    # <paper2code name="halved">
    return np.asarray(x) / 2
    # </paper2code name="halved">
"""
_CASES = """from rcb_env.cases import case


@case(seeds=2, covers=["src/scaling.py"])
def numbers(tree, rng):
    module = tree.load("scaling")
    x = rng.numpy.normal(size=5)
    return {"scaled": module.scaled(x, 3), "halved": module.halved(x)}
"""
_NODE = {"num_cpus": 2, "memory": 2 << 30, "object_store_memory": 100 << 20}


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    for name in ("one", "two"):
        write_paper(folder / name, {"src/scaling.py": _CODE, "tests/cases.py": _CASES})
    (folder / "papers.yaml").write_text("name: two-papers\npapers: [one, two]\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes; a test that adds one removes it."""
    made = Cluster()
    for _ in range(2):
        made.add_node(**_NODE)
    yield made
    ray.shutdown()
    made.shutdown()


def command(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **more},
        cwd=tempfile.gettempdir(),  # nodes import from where the driver works, too
    )


def run(
    papers: Path, out: Path, *arguments: object, **more: str
) -> subprocess.CompletedProcess[str]:
    return command("run", "--dataset", papers, "--out", out, "--quiet", *arguments, **more)


def started(papers: Path, out: Path, *arguments: object) -> subprocess.Popen[str]:
    line = ["run", "--dataset", str(papers), "--out", str(out), "--quiet", *map(str, arguments)]
    return subprocess.Popen(
        [sys.executable, "-m", "rcb_env.cli", *line], stderr=subprocess.PIPE, text=True
    )


def wait_for(what: Callable[[], Any], told: str, seconds: float = 300) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if found := what():
                return found
        time.sleep(0.2)
    raise AssertionError(f"in vain: {told}")


@contextlib.contextmanager
def belonging_to(cluster: Cluster) -> Iterator[None]:
    """This process is part of the cluster, which has noticed the end of the nodes that earlier tests removed."""
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        wait_for(lambda: sum(node["Alive"] for node in ray.nodes()) == 2, "two nodes")
        yield
    finally:
        ray.shutdown()


def lines(out: Path) -> list[dict[str, Any]]:
    path = out / "episodes.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def final_states(out: Path) -> dict[str, str]:
    """The state that counts, by challenge and sample."""
    return {line["key"]: line["episode"]["status"] for line in lines(out)}


def timeless(line: dict[str, Any]) -> dict[str, Any]:
    """A stored episode without times."""
    episode = {**line["episode"], "started_at": "", "wall_s": 0}
    if episode["verdict"]:
        episode["verdict"] = {**episode["verdict"], "timings": {}}
        for case in episode["verdict"]["cases"]:
            case.pop("seconds", None)
    return {**line, "episode": episode, "trajectory_sha256": ""}


def processes_of_nodes() -> list[int]:
    """The processes of nodes' actors."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"ray::Node" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("agent", ["reference", "noop"])
def test_a_run_on_a_cluster_is_the_run_without_it(
    cluster: Cluster, papers: Path, tmp_path: Path, agent: str
) -> None:
    there = run(
        papers, tmp_path / "there", "--agent", agent, "--cluster", cluster.address, "--samples", 3
    )
    here = run(papers, tmp_path / "here", "--agent", agent, "--samples", 3)
    assert (there.returncode, here.returncode) == (0, 0), there.stderr + here.stderr
    by_key = [sorted(map(timeless, lines(tmp_path / name)), key=str) for name in ("here", "there")]
    for one, other in zip(*by_key, strict=True):
        assert one == other
    configs = [RunStore.open(tmp_path / name).record["config"] for name in ("here", "there")]
    assert configs[0] == configs[1]
    wait_for(lambda: not processes_of_nodes(), "the end of the nodes' processes")


def test_completions_are_graded_and_papers_checked_on_a_cluster(
    cluster: Cluster, papers: Path, tmp_path: Path
) -> None:
    file = tmp_path / "replies.jsonl"
    answers = {
        "one/scaled": "    return np.asarray(x) * factor + 1\n",
        "two/halved": "    return x\n",
    }
    file.write_text(
        "".join(json.dumps({"challenge": c, "code": code}) + "\n" for c, code in answers.items()),
        encoding="utf-8",
    )
    out = tmp_path / "graded"
    graded = command(
        "grade", file, "--dataset", papers, "--cluster", cluster.address, "--out", out, "--quiet"
    )
    assert graded.returncode == 0, graded.stderr
    told = {line["episode"]["challenge"]: line["episode"]["status"] for line in lines(out)}
    assert told == {"one/scaled": "passed", "two/halved": "failed"}
    checks = [
        command("check", "one", "--dataset", papers, "--no-cache", "--json", *more)
        for more in ([], ["--cluster", cluster.address])
    ]
    here, there = (json.loads(check.stdout) for check in checks)
    assert there["regions"] == here["regions"]
    assert there["problems"] == here["problems"]


def test_a_budget_holds_over_all_nodes(
    cluster: Cluster, papers: Path, tmp_path: Path, model_server: Any
) -> None:
    """And the key of the model's server reaches the nodes, but no record and no log."""
    key = "sk-only-for-nodes-4711"
    out = tmp_path / "run"
    options = [
        "--agent",
        "single-shot",
        "--model",
        "m",
        "--base-url",
        model_server.url,
        "--cache",
        "off",
    ]
    model_server.plays(model_server.counted("```python\n    return x\n```", 300))
    cells = ["--samples", 8, "--cluster", cluster.address, "--workers", 1]
    stopped = run(papers, out, *options, *cells, "--run-budget-tokens", 6000, OPENAI_API_KEY=key)
    assert stopped.returncode != 0
    assert "budget of 6000 tokens is spent" in stopped.stderr
    asked = len(model_server.requests)
    assert 0 < asked < 32
    assert {r["headers"]["authorization"] for r in model_server.requests} == {f"Bearer {key}"}
    more = run(papers, out, "--resume", out, "--run-budget-tokens", "none", OPENAI_API_KEY=key)
    assert more.returncode == 0, more.stderr
    assert len(final_states(out)) == 32
    logs = Path(cluster.head_node.get_session_dir_path())
    for folder in (out, logs):
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert key.encode() not in path.read_bytes(), path


def test_what_dies_with_a_node_is_played_again_elsewhere(
    cluster: Cluster, papers: Path, tmp_path: Path
) -> None:
    """One node's process is killed, one node leaves, one joins: every cell has one final state."""
    out = tmp_path / "run"
    extra = cluster.add_node(**_NODE)
    slow = ["--agent", "command:sleep 1", "--samples", 40, "--workers", 4]
    with started(papers, out, *slow, "--cluster", cluster.address) as driver:
        wait_for(lambda: len(lines(out)) > 10, "the first episodes")
        os.kill(wait_for(processes_of_nodes, "a node's process")[0], signal.SIGKILL)
        cluster.remove_node(extra, allow_graceful=False)
        joined = cluster.add_node(**_NODE)
        _, told = driver.communicate(timeout=600)
    cluster.remove_node(joined, allow_graceful=False)
    assert driver.returncode == 0, told
    assert len(final_states(out)) == 160
    assert set(final_states(out).values()) == {"no_change"}, told
    lost = [
        line["episode"]["error"]
        for line in lines(out)
        if line["episode"]["status"] == "infra_error"
    ]
    assert all("was lost" in error for error in lost)
    assert lost, "nothing was in play on what died"
    assert told.count("it left the cluster") == 1, told
    wait_for(lambda: not processes_of_nodes(), "the end of the nodes' processes")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_is_stopped_leaves_nothing_and_goes_on(
    cluster: Cluster, papers: Path, tmp_path: Path, signum: int
) -> None:
    out = tmp_path / "run"
    slow = ["--agent", "command:sleep 1", "--samples", 10, "--workers", 2]
    with started(papers, out, *slow, "--cluster", cluster.address) as driver:
        wait_for(lambda: len(lines(out)) > 4, "the first episodes")
        driver.send_signal(signum)
        _, told = driver.communicate(timeout=120)
    assert driver.returncode == (130 if signum == signal.SIGINT else -9), told
    wait_for(lambda: not processes_of_nodes(), "the end of the nodes' processes")
    again = command("run", "--resume", out, "--cluster", cluster.address, "--quiet")
    assert again.returncode == 0, again.stderr
    assert len(lines(out)) == len(final_states(out)) == 40
    assert set(final_states(out).values()) == {"no_change"}


def test_a_node_that_cannot_run_code_or_has_other_code_is_named_once_and_not_used(
    cluster: Cluster, papers: Path, tmp_path: Path
) -> None:
    nowhere = tmp_path / "empty"
    nowhere.mkdir()
    other = tmp_path / "other"
    shutil.copytree(Path(rcb_env.__file__).parent, other / "rcb_env")
    for folder in ("images", "papers"):  # which lie beside the package in a checkout
        (other / folder).symlink_to(Path(rcb_env.__file__).parents[1] / folder)
    grader = other / "rcb_env" / "grading" / "grader.py"
    grader.write_text(grader.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    bad = [
        cluster.add_node(**_NODE, env_vars={"PATH": str(nowhere)}),
        cluster.add_node(**_NODE, env_vars={"PYTHONPATH": str(other)}),
    ]
    slow = ["--agent", "command:sleep 1", "--samples", 6, "--workers", 2, "--sandbox", "bubblewrap"]
    try:
        done = run(papers, tmp_path / "run", *slow, "--cluster", cluster.address)
    finally:
        for node in bad:
            cluster.remove_node(node, allow_graceful=False)
    assert done.returncode == 0, done.stderr
    assert len(final_states(tmp_path / "run")) == 24
    refused = [line for line in done.stderr.splitlines() if "is not used" in line]
    assert len(refused) == 2, done.stderr
    assert any("bubblewrap" in line for line in refused), refused
    assert any("the driver" in line and "rcb-env" in line for line in refused), refused


def test_a_cluster_without_a_node_that_works_is_one_line_and_takes_no_folder(
    papers: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = run(papers, out, "--agent", "noop", "--cluster", "local:1", "--sandbox", "podman")
    assert done.returncode != 0
    assert "no node of the cluster local:1 can run code" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (out / "run.json").exists()


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("127.0.0.1:1", "no cluster at 127.0.0.1:1"),
        ("local:0", "write local:N"),
        ("local", "write local:N"),
    ],
)
def test_no_cluster_is_one_line(papers: Path, tmp_path: Path, where: str, told: str) -> None:
    done = run(papers, tmp_path / "run", "--agent", "noop", "--cluster", where)
    assert done.returncode != 0
    assert told in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_environments_in_ray_actors_share_the_boxes_of_their_node(
    cluster: Cluster, papers: Path
) -> None:
    """More graders than a node has boxes: what finds none free is graded on another node."""

    class Rollouts:
        """What a training framework has on a node."""

        def play(self, code: str) -> tuple[str, float]:
            env = rcb_env.ResearchCodeEnv("one/scaled", dataset=papers, sandbox="ray")
            env.reset(seed=0)
            env.step({"tool": "write_region", "arguments": {"code": code}})
            _, reward, terminated, _, _ = env.step({"tool": "submit", "arguments": {}})
            assert terminated
            assert env.verdict is not None
            return env.verdict.status, float(reward)

    with belonging_to(cluster):
        workers = [ray.remote(num_cpus=0, max_concurrency=8)(Rollouts).remote() for _ in range(2)]
        right = "    return np.asarray(x) * factor + 1\n"
        asked = [w.play.remote(code) for w in workers for code in 6 * [right, "    return x\n"]]
        told = ray.get(asked)
        assert told == 12 * [("passed", 1.0), ("failed", 0.0)]
        assert 1 <= len(processes_of_nodes()) <= 2


def test_vectors_and_adapters_grade_at_their_node(cluster: Cluster, papers: Path) -> None:
    right = "    return np.asarray(x) * factor + 1\n"
    with belonging_to(cluster):
        envs = gymnasium.make_vec(
            "rcb/Challenge-v0",
            num_envs=2,
            challenge="one/scaled",
            dataset=papers,
            sandbox="ray",
        )
        envs.reset(seed=0)
        codes = (right, "    return x\n")
        envs.step([{"tool": "write_region", "arguments": {"code": code}} for code in codes])
        _, rewards, terminated, _, _ = envs.step(2 * [{"tool": "submit", "arguments": {}}])
        assert (list(rewards), list(terminated)) == ([1.0, 0.0], [True, True])
        envs.close()
    with belonging_to(cluster):  # once more, in the same process
        rollout: Any = environment_factory(dataset=papers, sandbox="ray")()
        rollout.reset(challenge="one/scaled")
        rollout.write_region(code=right)
        rollout.submit()
        assert rollout.get_reward() == 1.0
        assert len(processes_of_nodes()) == 1


def test_ray_as_a_sandbox_outside_a_cluster_says_what_to_do(papers: Path) -> None:
    env = rcb_env.ResearchCodeEnv("one/scaled", dataset=papers, sandbox="ray")
    env.reset(seed=0)
    with pytest.raises(rcb_env.SandboxUnavailable, match=r"call ray\.init\(\) first"):
        env.step({"tool": "submit", "arguments": {}})
