"""Move a random cloud of points onto another one by gradient descent on the loss."""

from __future__ import annotations

import torch

from similarity import gps_loss


def fit_cloud(n: int = 64, steps: int = 100, rate: float = 0.5, seed: int = 0) -> list[float]:
    """The losses on the way from a cube's points to a sphere's."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randn(1, n, 3, generator=generator)
    target = target / target.norm(dim=-1, keepdim=True)
    cloud = torch.rand(1, n, 3, generator=generator).requires_grad_(True)
    losses = []
    for _ in range(steps):
        loss = gps_loss(cloud, target, alphas=[1.0], betas=[5.0])
        (gradient,) = torch.autograd.grad(loss, cloud)
        with torch.no_grad():
            cloud -= rate * gradient
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    history = fit_cloud()
    print(history[0], history[-1])
