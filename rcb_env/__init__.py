"""rcb-env: agents that write research code, as Gymnasium environments.

`import rcb_env` registers the environment ``rcb/Challenge-v0``, and Gymnasium is all it loads. The
names of `__all__` are the public interface; each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register as _register
from gymnasium.envs.registration import registry as _registry

if TYPE_CHECKING:
    from rcb_env.dataset.loading import load_dataset
    from rcb_env.dataset.markers import Masked
    from rcb_env.dataset.papers import Challenge, Dataset, Paper
    from rcb_env.env.actions import (
        TOOLS,
        Tool,
        ToolCall,
        parse,
        tool_schemas,
    )
    from rcb_env.env.curriculum import Curriculum, challenges_of
    from rcb_env.env.environment import ResearchCodeEnv
    from rcb_env.env.rewards import RewardSpec, reward_spec, rewards_of
    from rcb_env.env.settings import Budgets, Rules, Shown
    from rcb_env.env.spaces import ActionSpace, TextSpace
    from rcb_env.env.state import EnvSnapshot
    from rcb_env.env.vector import Arrival, ChallengeVectorEnv
    from rcb_env.errors import (
        AgentError,
        ModelError,
        ModelRefusedRequest,
        PaperError,
        RcbError,
        SandboxError,
        SandboxUnavailable,
        StoreError,
        UsageError,
        without_credentials,
    )
    from rcb_env.grading.grader import Grader, Verdict
    from rcb_env.grading.worth import Worth
    from rcb_env.mutation import Mutant, mutants
    from rcb_env.play.agent import (
        Agent,
        BudgetSpent,
        ModelSettings,
        NoAnswer,
        Task,
        Turn,
        Usage,
    )
    from rcb_env.play.episode import Recorder, play_episode
    from rcb_env.play.extraction import Extracted, extract
    from rcb_env.play.record import Episode
    from rcb_env.play.registry import agent_names, make_agent
    from rcb_env.wrappers import (
        ChatMessages,
        DiscreteChoice,
        HistoryWindow,
        TokenBudget,
        ToolText,
    )

_HOME = {
    "rcb_env.env.actions": (
        "TOOLS",
        "Tool",
        "ToolCall",
        "parse",
        "tool_schemas",
    ),
    "rcb_env.env.environment": ("ResearchCodeEnv",),
    "rcb_env.env.state": ("EnvSnapshot",),
    "rcb_env.play.agent": (
        "Agent",
        "BudgetSpent",
        "ModelSettings",
        "NoAnswer",
        "Task",
        "Turn",
        "Usage",
    ),
    "rcb_env.play.registry": ("agent_names", "make_agent"),
    "rcb_env.env.settings": ("Budgets", "Rules", "Shown"),
    "rcb_env.env.spaces": ("ActionSpace", "TextSpace"),
    "rcb_env.play.episode": ("Recorder", "play_episode"),
    "rcb_env.play.record": ("Episode",),
    "rcb_env.errors": (
        "AgentError",
        "ModelError",
        "ModelRefusedRequest",
        "PaperError",
        "RcbError",
        "SandboxError",
        "SandboxUnavailable",
        "StoreError",
        "UsageError",
        "without_credentials",
    ),
    "rcb_env.play.extraction": ("Extracted", "extract"),
    "rcb_env.grading.grader": ("Grader", "Verdict"),
    "rcb_env.grading.worth": ("Worth",),
    "rcb_env.dataset.markers": ("Masked",),
    "rcb_env.mutation": ("Mutant", "mutants"),
    "rcb_env.dataset.loading": ("load_dataset",),
    "rcb_env.dataset.papers": ("Challenge", "Dataset", "Paper"),
    "rcb_env.env.curriculum": ("Curriculum", "challenges_of"),
    "rcb_env.env.rewards": ("RewardSpec", "reward_spec", "rewards_of"),
    "rcb_env.env.vector": ("Arrival", "ChallengeVectorEnv"),
    "rcb_env.wrappers": (
        "ChatMessages",
        "DiscreteChoice",
        "HistoryWindow",
        "TokenBudget",
        "ToolText",
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "TOOLS",
    "ActionSpace",
    "Agent",
    "AgentError",
    "Arrival",
    "BudgetSpent",
    "Budgets",
    "Challenge",
    "ChallengeVectorEnv",
    "ChatMessages",
    "Curriculum",
    "Dataset",
    "DiscreteChoice",
    "EnvSnapshot",
    "Episode",
    "Extracted",
    "Grader",
    "HistoryWindow",
    "Masked",
    "ModelError",
    "ModelRefusedRequest",
    "ModelSettings",
    "Mutant",
    "NoAnswer",
    "Paper",
    "PaperError",
    "RcbError",
    "Recorder",
    "ResearchCodeEnv",
    "RewardSpec",
    "Rules",
    "SandboxError",
    "SandboxUnavailable",
    "Shown",
    "StoreError",
    "Task",
    "TextSpace",
    "TokenBudget",
    "Tool",
    "ToolCall",
    "ToolText",
    "Turn",
    "Usage",
    "UsageError",
    "Verdict",
    "Worth",
    "agent_names",
    "challenges_of",
    "extract",
    "load_dataset",
    "make_agent",
    "mutants",
    "parse",
    "play_episode",
    "reward_spec",
    "rewards_of",
    "tool_schemas",
    "without_credentials",
]

ENV_ID = "rcb/Challenge-v0"

if ENV_ID not in _registry:
    # It checks what Gymnasium's two wrappers would check, and is not hidden by them: `snapshot` and
    # `fork` are there on what `gymnasium.make` returns.
    _register(
        ENV_ID,
        entry_point="rcb_env.env.environment:ResearchCodeEnv",
        vector_entry_point="rcb_env.env.vector:ChallengeVectorEnv",
        order_enforce=False,
        disable_env_checker=True,
    )


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'rcb_env' has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
