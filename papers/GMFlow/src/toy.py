"""Data for which the true velocity mixtures are known, and sampling with and without guidance."""

from __future__ import annotations

import torch
from torch import Tensor

from guidance import probabilistic_guidance
from mixture import GaussianMixture, times_gaussian
from network import VelocityNet
from samplers import Model, gm_ode_sample, time_grid


def exact_model(centres: Tensor, deviation: float) -> Model:
    """The true velocities for pixels that are drawn from equal Gaussians around ``centres`` (K, C)."""
    components, channels = centres.shape

    def model(x: Tensor, t: Tensor) -> GaussianMixture:
        batch, _, height, width = x.shape
        wide = (batch, components, channels, height, width)
        clean = GaussianMixture(
            centres.to(x).reshape(1, components, channels, 1, 1).expand(wide),
            x.new_full((batch, components, 1, height, width), 1 / components).log(),
            x.new_full((batch, 1, 1, 1, 1), deviation).log(),
        )
        odds = (1 - t) / t
        data = times_gaussian(clean, odds**2, (odds / t).reshape(-1, 1, 1, 1) * x)
        t = t.reshape(-1, 1, 1, 1, 1)
        return GaussianMixture(
            (x.unsqueeze(1) - data.means) / t, data.logweights, data.logstd - t.log()
        )

    return model


def guided_model(net: VelocityNet, labels: Tensor, scale: float) -> Model:
    """A network with classes as a model of (x, t)."""
    nothing = torch.full_like(labels, net.null_label)

    def model(x: Tensor, t: Tensor) -> GaussianMixture:
        return probabilistic_guidance(net(x, t, labels), net(x, t, nothing), scale)

    return model


def main() -> None:
    """Sample from four known Gaussians in six steps."""
    centres = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0], [0.0, -2.0]])
    noise = torch.randn(8, 2, 1, 1)
    print(gm_ode_sample(exact_model(centres, 0.1), noise, time_grid(6), 16).flatten(1))


if __name__ == "__main__":
    main()
