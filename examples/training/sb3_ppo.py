"""Stable-Baselines3 on real challenges: its PPO learns which completion passes.

    pip install 'rcb-env[rl]'
    python examples/training/sb3_ppo.py

`DummyVecEnv` steps the environments one after the other; they share the boxes of this process.
"""

from __future__ import annotations

import argparse

from needs import require
from numbers_of_challenges import makers, told


def main() -> None:
    """Learn, and say how the pass rate went."""
    parser = argparse.ArgumentParser(description="Stable-Baselines3 on real challenges.")
    parser.add_argument("--steps", type=int, default=384, help="episodes, of one decision each")
    parser.add_argument("--envs", type=int, default=4)
    chosen = parser.parse_args()
    require("rl", "stable_baselines3")
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

    torch.set_num_threads(1)  # the policy is too small to share out
    envs = VecMonitor(DummyVecEnv(makers(chosen.envs)))
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=16,
        batch_size=16 * chosen.envs,
        n_epochs=8,
        learning_rate=0.01,
        ent_coef=0.02,
        gamma=0.0,  # an episode is one decision
        seed=0,
        device="cpu",
    )
    rewards: list[float] = []

    def note(values: dict[str, object], _globals: dict[str, object]) -> bool:
        rewards.extend(values["rewards"])  # type: ignore[arg-type]
        return True

    model.learn(chosen.steps, callback=note)
    envs.close()
    print(told(rewards))


if __name__ == "__main__":
    main()
