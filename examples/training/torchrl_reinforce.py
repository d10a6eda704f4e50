"""TorchRL on real challenges: its `GymWrapper`, collector and modules, and one line of policy gradient.

pip install 'rcb-env[rl]'
python examples/training/torchrl_reinforce.py
"""

from __future__ import annotations

import argparse

from needs import require
from numbers_of_challenges import makers, told


def main() -> None:
    """Learn, and say how the pass rate went."""
    parser = argparse.ArgumentParser(description="TorchRL on real challenges.")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--batch", type=int, default=24, help="episodes of an update")
    chosen = parser.parse_args()
    require("rl", "torchrl")
    import torch
    from tensordict.nn import TensorDictModule, TensorDictSequential
    from torchrl.collectors import Collector
    from torchrl.envs import GymWrapper
    from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor

    torch.set_num_threads(1)  # the policy is too small to share out
    torch.manual_seed(0)
    (make,) = makers(1)
    env = GymWrapper(make())
    env.set_seed(0)
    size = env.observation_spec["observation"].shape[-1]
    count = env.action_spec.shape[-1]

    policy = ProbabilisticActor(
        TensorDictSequential(
            TensorDictModule(lambda number: number.float(), ["observation"], ["seen"]),
            TensorDictModule(MLP(size, count, num_cells=[32]), ["seen"], ["logits"]),
        ),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
    )
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    collector = Collector(
        env,
        policy,
        frames_per_batch=chosen.batch,
        total_frames=chosen.batch * chosen.updates,
        auto_register_policy_transforms=False,  # an episode is one decision: there is nothing to track
    )
    rewards: list[float] = []
    for batch in collector:
        earned = batch["next", "reward"].squeeze(-1)
        rewards.append(float(earned.mean()))
        logs = policy.get_dist(batch).log_prob(batch["action"])
        loss = -(logs * (earned - earned.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    collector.shutdown()
    print(told(rewards))


if __name__ == "__main__":
    main()
