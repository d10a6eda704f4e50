"""The name under which `verifiers` finds rcb-env: ``vf-eval rcb-verifiers``.

verifiers loads a taskset by the name of a top-level module that exports it. What is exported here
lives in `rcb_env.adapters.verifiers`.
"""

from __future__ import annotations

from rcb_env.adapters.verifiers import ChallengeEnv, ChallengeHarness, Challenges, load_environment

__all__ = ["ChallengeEnv", "ChallengeHarness", "Challenges", "load_environment"]
