"""What an episode's page shows of the region: the text after each step, and never a guess."""

from __future__ import annotations

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.view.regions import regions

CHALLENGE = load_dataset().challenge("DyT/forward")
CODE = "        y = torch.tanh(self.alpha * x)\n        return y\n"
ACTIONS = [
    {"tool": "read_file", "arguments": {"path": CHALLENGE.file}},
    {"tool": "write_region", "arguments": {"code": CODE.replace("        ", "")}},  # is moved
    {"tool": "replace", "arguments": {"old": "return y", "new": "return y * self.weight"}},
    {"tool": "replace", "arguments": {"old": "not there", "new": "at all"}},
    {"tool": "nonsense", "arguments": {}},
    {"tool": "write_region", "arguments": {"code": CODE}},
    {"tool": "undo", "arguments": {}},
    {"tool": "undo"},
]


@pytest.fixture(scope="module")
def played() -> tuple[list[dict[str, object]], list[str]]:
    """Steps as they are recorded, and the region after each, told by the environment itself."""
    env = ResearchCodeEnv(challenge=CHALLENGE.id)
    env.reset(seed=0)
    steps, texts = [], []
    for action in ACTIONS:
        *_, info = env.step(action)
        steps.append(
            {"action": action, "error": info["error"], "code_hash": str(info["code_hash"])}
        )
        texts.append(env.code)
    env.close()
    return steps, texts


def test_the_region_after_each_step_is_the_environments(
    played: tuple[list[dict[str, object]], list[str]],
) -> None:
    steps, texts = played
    found = list(regions(steps, CHALLENGE, {}))
    assert [after for _, after in found] == texts
    assert found[0][0] == CHALLENGE.masked().placeholder
    assert [before for before, _ in found[1:]] == texts[:-1]
    assert len(set(texts)) == 3


def test_without_the_challenge_only_what_was_written_whole_is_known(
    played: tuple[list[dict[str, object]], list[str]],
) -> None:
    steps, texts = played
    found = [after for _, after in regions(steps, None, {})]
    assert [after in (None, text) for after, text in zip(found, texts, strict=True)] == [True] * 8
    assert found[5] == CODE
    assert found[0] is None


@pytest.mark.parametrize(
    "step",
    [
        {},
        {"action": {"tool": "write_region", "arguments": {"code": 7}}},
        {"action": "write_region", "code_hash": []},
        {"action": {"tool": "write_region", "arguments": {"code": CODE}}, "code_hash": "0" * 64},
    ],
)
def test_a_step_that_does_not_fit_its_hash_ends_what_is_known(
    played: tuple[list[dict[str, object]], list[str]], step: dict[str, object]
) -> None:
    steps, texts = played
    found = [after for _, after in regions([*steps[:3], step, *steps[3:]], CHALLENGE, {})]
    assert found[:3] == texts[:3]
    assert found[3] is None
    assert [after in (None, text) for after, text in zip(found[4:], texts[3:], strict=True)] == [
        True
    ] * 5
