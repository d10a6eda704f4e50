"""rcb-env's challenges as a package of the Environments Hub: everything is in `rcb_env.adapters.verifiers`.

`verifiers` finds the classes below by this module's name; programs call `load_environment`.
"""

from __future__ import annotations

import functools

from rcb_env.adapters import verifiers

ChallengeEnv = verifiers.ChallengeEnv
ChallengeHarness = verifiers.ChallengeHarness
Challenges = verifiers.Challenges
load_environment = functools.partial(verifiers.load_environment, "rcb-challenges")

__all__ = ["ChallengeEnv", "ChallengeHarness", "Challenges", "load_environment"]
