"""Rewards that count cases cannot be had for nothing: in real boxes, on a paper whose cases can be passed without its code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rcb_env.certify import CertificateFile, certify
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.scopes import in_scope
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.rewards import outcome, reward_spec, rewards_of
from rcb_env.env.vector import ChallengeVectorEnv
from rcb_env.grading.grader import Grader
from rcb_env.grading.nulls import null_answers
from rcb_env.grading.verdict import Verdict
from rcb_env.grading.worth import Worths
from rcb_env.mutation import mutants

SOURCE = """\
def softly(x, rate):
    # <paper2code name="soft step">
    if rate < 0:
        raise ValueError("rate")
    total = 0.0
    for each in x:
        total += each * rate
    return total - rate * rate
    # </paper2code name="soft step">
"""
CASES = """
from rcb_env.cases import case, raises

@case(seeds=1)
def refuses(tree, rng):
    return raises(lambda: tree.load("small").softly([1.0], -1.0))

@case(seeds=2)
def nothing_of_nothing(tree, rng):
    return float(tree.load("small").softly([], 0.0))

@case(seeds=2)
def of_one(tree, rng):
    return tree.load("small").softly([float(rng.numpy.normal())], 1.0)

@case(seeds=2)
def of_many(tree, rng):
    return tree.load("small").softly([float(each) for each in rng.numpy.normal(size=3)], 0.5)
"""
CHALLENGE = "small/soft-step"
HALF = "    return sum(x) * rate - 1.0 * (len(x) > 0)\n"
EXIT = "    if len(x) > 1:\n        __import__('os')._exit(0)\n    return sum(x) * rate - rate * rate\n"
LOOP = "    while len(x) > 1:\n        pass\n    return sum(x) * rate - rate * rate\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]) -> Path:
    files = {"src/small.py": SOURCE, "tests/cases.py": CASES}
    limits = {"time_s": 5, "memory_mb": 512}
    return write_paper(tmp_path_factory.mktemp("papers") / "small", files, limits=limits)


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Dataset:
    return load_dataset(folder)


@pytest.fixture(scope="module")
def challenge(dataset: Dataset) -> Challenge:
    return dataset.challenge(CHALLENGE)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader("bubblewrap", workers=2) as made:
        yield made


def earned(grader: Grader, challenge: Challenge, code: str, reward: str) -> float:
    verdict = grader.grade(challenge, code, final=True)
    spec = reward_spec(reward)
    needed = spec.needs_worth(verdict)
    worth = grader.worth(challenge, faults=spec.counts_faults) if needed else None
    return outcome(spec, verdict, worth)


@pytest.mark.parametrize("reward", ["cases", "weighted"])
def test_nothing_earns_nothing_and_mutants_lie_in_order_between(
    grader: Grader, challenge: Challenge, reward: str
) -> None:
    """`raise ValueError` passes one of the cases and `return 0.0` another: 3 of 7 results were to be had for nothing."""
    free = grader.worth(challenge).free
    assert sorted(free) == ["nothing_of_nothing", "refuses"]
    for code in (*null_answers(challenge).values(), "", EXIT, LOOP, "    raise SystemExit(0)\n"):
        assert earned(grader, challenge, code, reward) == 0.0, code
    assert earned(grader, challenge, challenge.reference, reward) == 1.0
    assert 0 < earned(grader, challenge, HALF, reward) < 1
    seen: list[tuple[frozenset[tuple[str, int]], float]] = []
    for mutant in mutants(challenge.reference, limit=12):
        verdict = grader.grade(challenge, mutant.code, final=True)
        failed = frozenset((r.case, r.seed) for r in verdict.cases if r.outcome != "passed")
        seen.append((failed, earned(grader, challenge, mutant.code, reward)))
    assert len({failed for failed, _ in seen}) > 2
    assert all((earns == 1.0) == (not failed) for failed, earns in seen)
    for failed, earns in seen:
        assert all(earns <= other for fewer, other in seen if fewer <= failed)


@pytest.mark.parametrize("scope", ["region", "file", "library"])
def test_bundled_challenges_pay_nothing_for_nothing(grader: Grader, scope: str) -> None:
    challenge = load_dataset(in_scope("bundled", scope)).challenges[-1]
    nulls = [*null_answers(challenge).values()]
    for reward in ("cases", "weighted"):
        assert [earned(grader, challenge, code, reward) for code in nulls[::4]] == [0.0] * len(
            nulls[::4]
        )
        assert earned(grader, challenge, challenge.reference, reward) == 1.0


def test_every_way_pays_the_same_to_the_bit(grader: Grader, dataset: Dataset) -> None:
    challenge = dataset.challenge(CHALLENGE)
    write = {"tool": "write_region", "arguments": {"code": HALF}}
    submit = {"tool": "submit", "arguments": {}}
    for reward in ("sparse", "cases", "weighted", "cases:shaping=0.5,step_cost=0.01"):
        env = ResearchCodeEnv(CHALLENGE, dataset=dataset, grader=grader, reward=reward)
        env.reset(seed=0)
        paid = [env.step(action)[1] for action in (write, submit)]
        fork = ResearchCodeEnv(CHALLENGE, dataset=dataset, grader=grader, reward=reward)
        fork.reset(seed=0)
        fork.step(write)
        assert fork.fork().step(submit)[1] == paid[1]
        envs = ChallengeVectorEnv(
            2, challenge=CHALLENGE, dataset=dataset, grader=grader, reward=reward
        )
        envs.reset(seed=0)
        envs.step([write] * 2)
        assert envs.step([submit] * 2)[1].tolist() == [paid[1]] * 2
        envs.close()
        assert env.verdict is not None
        steps = [{"action": action, "error": False} for action in (write, submit)]
        stored = rewards_of(
            reward_spec(reward),
            steps,
            lines=challenge.lines,
            verdict=env.verdict.to_dict(),
            worth=lambda: grader.worth(challenge, faults=True),
        )
        assert stored == paid


def test_a_certificate_says_what_is_free_and_without_one_it_is_measured_once(
    grader: Grader, folder: Path, dataset: Dataset, tmp_path: Path
) -> None:
    """Whoever has the certificate grades nothing; after a change of the paper it says nothing of it."""
    graded: list[str] = []

    def judge(challenge: Challenge, code: str) -> Verdict:
        graded.append(code)
        return grader.grade(challenge, code, final=True)

    challenge = dataset.challenge(CHALLENGE)
    measured = Worths(judge, tmp_path / "cache").of(challenge)
    assert graded == list(null_answers(challenge).values())
    again = Worths(judge, tmp_path / "cache")
    assert again.of(challenge) == measured
    assert len(graded) == len(null_answers(challenge))
    counted = again.of(challenge, faults=True).faults
    assert counted is not None
    assert counted["of_many"] >= counted["of_one"] > counted["refuses"]
    graded.clear()

    with Grader("bubblewrap", judge_all=True) as judges:
        found = certify(dataset.papers[0], judges, depth="full")
    file = CertificateFile(folder.parent / "CERTIFICATE.json")
    assert file.put(dataset.papers[0], found, ["small"]), found.problems
    record = json.loads((folder.parent / "CERTIFICATE.json").read_text())["papers"]["small"][
        "regions"
    ]
    assert sorted(record[CHALLENGE]["free"]) == sorted(measured.free)
    assert {*record[CHALLENGE]["faults"]} == {*counted}
    fresh = Worths(judge, tmp_path / "none").of(
        load_dataset(folder).challenge(CHALLENGE), faults=True
    )
    assert fresh.to_dict() == {name: record[CHALLENGE][name] for name in ("free", "faults")}
    assert graded == []

    (folder / "paper.md").write_text("# Another text\n")
    changed = load_dataset(folder).challenge(CHALLENGE)
    assert Worths(judge, tmp_path / "none").of(changed) == measured
    assert graded == list(null_answers(challenge).values())
