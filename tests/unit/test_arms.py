"""Matched arms: how they are written, and what the runs of them share."""

from __future__ import annotations

from pathlib import Path

import pytest

from rcb_env.errors import StoreError, UsageError
from rcb_env.play.agent import ModelSettings
from rcb_env.report.comparison import differences
from rcb_env.runs.arms import arm_configs, open_arms, split_arms
from rcb_env.runs.folders import arms_of
from rcb_env.runs.plan import RunConfig
from rcb_env.runs.store import RunStore

CHALLENGE = "DyT/forward"


def base(**more: object) -> RunConfig:
    return RunConfig("", challenges=(CHALLENGE,), sandbox="bubblewrap", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "arms"),
    [
        (["a,b:x=1,c"], ["a", "b:x=1", "c"]),
        (["b:x=1,y=2,c"], ["b:x=1,y=2", "c"]),
        (["b, x=1 ,c"], ["b:x=1", "c"]),
        (["my.module:Mine:depth=4,wide=2,a"], ["my.module:Mine:depth=4,wide=2", "a"]),
        (["a", "command:tool --x=1, --y=2", "b"], ["a", "command:tool --x=1, --y=2", "b"]),
        (["a@paper=none,b:x=1,y=2@paper=full"], ["a@paper=none", "b:x=1,y=2@paper=full"]),
    ],
)
def test_a_comma_separates_arms_and_their_settings(values: list[str], arms: list[str]) -> None:
    assert split_arms(values) == arms


@pytest.mark.parametrize("values", [[""], [","], ["x=1,a"], ["a", "x=1"]])
def test_what_names_no_agent_is_refused(values: list[str]) -> None:
    with pytest.raises(UsageError, match=r"--arms names no agent|setting of which arm"):
        split_arms(values)


def test_an_agent_that_takes_no_model_plays_without_it() -> None:
    configs = arm_configs(base(model=ModelSettings("m")), ["noop", "simulated", "repair:rounds=1"])
    assert [config.model for config in configs.values()] == [None, None, ModelSettings("m")]
    assert list(configs) == ["noop", "simulated", "repair-rounds-1"]


@pytest.mark.parametrize(
    ("agents", "says"),
    [
        (["noop", "noop"], "there twice"),
        (["simulated", "simulated:skill=0.5"], "there twice"),
        (["noop", "reference"], "no arm takes a model"),
        (["noop", "refrence"], "unknown agent"),
        (["repair@paper=none", "repair@paper=none"], "there twice"),
        (["repair@paper=half"], "is none of full, sections, none"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused(agents: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        arm_configs(base(model=ModelSettings("m")), agents)


def test_an_arm_is_called_by_the_shortest_name_of_its_agent(tmp_path: Path) -> None:
    folder = tmp_path / "arms"
    with open_arms(base(model=ModelSettings("m")), ["repair:3", "repair:rounds=02"], folder):
        pass
    assert arms_of(folder) == {"repair": "repair", "repair-rounds-2": "repair:rounds=2"}


def test_arms_share_everything_but_the_agent(tmp_path: Path) -> None:
    folder = tmp_path / "arms"
    with open_arms(base(seed=7, samples=2), ["noop", "reference"], folder) as arms:
        assert list(arms) == ["noop", "reference"]
    assert arms_of(folder) == {"noop": "noop", "reference": "reference"}
    records = [dict(RunStore.open(folder / name).record) for name in arms_of(folder)]
    configs = [record.pop("config") for record in records]
    assert records[0]["plan"] == records[1]["plan"]
    assert {k for k in configs[0] if configs[0][k] != configs[1][k]} == {"agent"}


def test_arms_are_taken_up_again_only_with_the_same_agents(tmp_path: Path) -> None:
    folder = tmp_path / "arms"
    agents = ["noop", "reference"]
    with open_arms(base(), agents, folder):
        pass
    with open_arms(base(), [], folder, resume=True) as arms:
        assert list(arms) == agents
    with pytest.raises(StoreError, match="--resume"), open_arms(base(), agents, folder):
        pass
    with (
        pytest.raises(UsageError, match="made with the arms noop, reference"),
        open_arms(base(), ["noop"], folder, resume=True),
    ):
        pass
    with (
        pytest.raises(StoreError, match="seed was 0 and is now 1"),
        open_arms(base(seed=1), [], folder, resume=True),
    ):
        pass


def test_a_damaged_record_of_arms_is_named(tmp_path: Path) -> None:
    (tmp_path / "arms.json").write_text('{"arms": [1]}')
    with pytest.raises(StoreError, match=r"arms\.json is damaged"):
        arms_of(tmp_path)


def test_an_agent_plays_with_and_without_the_paper_and_all_else_is_the_same(tmp_path: Path) -> None:
    """Each arm names its paper in full, so that a folder is resumed alike whatever the first arm was."""
    folder = tmp_path / "arms"
    with open_arms(base(), ["noop@paper=none", "noop"], folder) as arms:
        assert list(arms) == ["noop-paper-none", "noop-paper-full"]
    assert list(arms_of(folder).values()) == ["noop@paper=none", "noop@paper=full"]
    with open_arms(base(), [], folder, resume=True) as again:
        assert [config.shown.paper for config, _ in again.values()] == ["none", "full"]
    configs = [RunStore.open(folder / name).record["config"] for name in arms_of(folder)]
    differ = {
        k for k in configs[0].keys() | configs[1].keys() if configs[0].get(k) != configs[1].get(k)
    }
    assert differ == {"paper"}
    one, other = (RunStore.open(folder / name).record for name in arms_of(folder))
    assert list(differences(one, other, [CHALLENGE])) == [], "the paper is what is compared"
