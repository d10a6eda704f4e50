"""Gymnasium's own vector environments, as the documentation says to make them: texts arrive whole."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import pytest

import rcb_env
from rcb_env.env.environment import ResearchCodeEnv

# Characters of one to four bytes, a combining one, a tab; together longer than any pipe's buffer.
LINE = "# é ∇ 🙂 \U0010fffd a\u0301 漢字 \t'\"\\ " + "ß" * 40
LONG = "\n".join(f"    {LINE} {number}" for number in range(1_500))
WRITE = {"tool": "write_region", "arguments": {"code": f"{LONG}\n    return 1\n"}}
MISTAKE = {"tool": LINE, "arguments": {}}


@pytest.mark.parametrize(
    "how",
    [
        {"vectorization_mode": "sync"},
        {"vectorization_mode": "async", "vector_kwargs": {"shared_memory": False}},
    ],
    ids=["sync", "async"],
)
def test_long_texts_in_all_of_unicode_come_through_as_they_are(how: dict[str, Any]) -> None:
    settings: dict[str, Any] = {
        "challenge": "DyT/forward",
        "max_text_chars": 1_000_000,
        "max_steps": 5,
    }
    one = ResearchCodeEnv(**settings)
    read = {"tool": "read_file", "arguments": {"path": one.challenge.file}}
    with warnings.catch_warnings():
        # Newer Pythons warn of any fork while threads run.
        warnings.simplefilter("ignore", DeprecationWarning)
        envs = gymnasium.make_vec(rcb_env.ENV_ID, num_envs=2, **how, **settings)
    try:
        expected = [one.reset(seed=1)[0]]
        found = [envs.reset(seed=1)[0]]
        for action in (WRITE, read, MISTAKE):
            expected.append(one.step(action)[0])
            observations, _, _, _, infos = envs.step((action, {"tool": "undo", "arguments": {}}))
            found.append(observations)
        assert infos["error"].tolist() == [True, True]
        for observation, observations in zip(expected, found, strict=True):
            assert isinstance(observations["text"], tuple)
            assert observations["text"][0] == observation["text"]
            assert observations["steps_left"][0] == observation["steps_left"]
            assert observations in envs.observation_space
        assert f"{LINE} 1499" in found[2]["text"][0]
        assert found[0]["text"][1] == expected[0]["text"]
        assert "cut here" not in found[2]["text"][0]
    finally:
        envs.close()
