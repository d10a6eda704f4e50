"""End-to-end training: each loss reaches only the networks that it is good for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from alignment import alignment_loss
from diffusion import interpolate, velocity_loss
from normalization import LatentNorm
from regularization import kl_divergence, perceptual_distance


@dataclass(frozen=True)
class Weights:
    """Of the parts of the losses, and other numbers of training."""

    align_vae: float = 1.5
    align_model: float = 0.5
    perceptual: float = 1.0
    kl: float = 1e-6
    max_norm: float = 1.0
    decay: float = 0.9999


class Parts(NamedTuple):
    """Everything that is trained together, and what stays frozen."""

    vae: nn.Module
    norm: LatentNorm
    model: nn.Module
    average: nn.Module  # slow copy of the model
    features: object  # images to a list of (B, T, D), frozen
    perception: object  # images to a list of feature maps, frozen


class Randomness(NamedTuple):
    """Injected random numbers of one step."""

    posterior: Tensor  # (B, L, h, w), standard normal
    diffusion: Tensor  # (B, L, h, w), standard normal
    t: Tensor  # (B,), in [0, 1]


def train_step(
    parts: Parts,
    vae_optimizer: torch.optim.Optimizer,
    model_optimizer: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
    randomness: Randomness,
    weights: Weights,
) -> dict[str, float]:
    """One step of all networks.

    Returns:
        Means over the batch, before any update: "reconstruction", "perceptual", "kl", "align_vae", "diffusion", "align_model".
    """
    # <paper2code name="end-to-end training step">
    targets = parts.features(images)
    posterior = parts.vae.encode(images)
    z = posterior.sample(randomness.posterior)
    restored = parts.vae.decode(z)
    x = parts.norm(z)
    # <paper2code name="losses of the VAE">
    noisy, _ = interpolate(x, randomness.diffusion, randomness.t)
    _, projected = parts.model(noisy, randomness.t, labels)
    reconstruction = (restored - images).abs().mean()
    perceptual = perceptual_distance(parts.perception, images, restored).mean()
    kl = kl_divergence(posterior).mean()
    align_vae = alignment_loss(projected, targets).mean()
    vae_loss = reconstruction + weights.perceptual * perceptual + weights.kl * kl
    vae_loss = vae_loss + weights.align_vae * align_vae
    # </paper2code name="losses of the VAE">
    # <paper2code name="losses of the diffusion model">
    noisy, velocity = interpolate(x.detach(), randomness.diffusion, randomness.t)
    output = parts.model(noisy, randomness.t, labels)
    diffusion = velocity_loss(output, velocity).mean()
    _, projected = output
    align_model = alignment_loss(projected, targets).mean()
    model_loss = diffusion + weights.align_model * align_model
    # </paper2code name="losses of the diffusion model">
    pairs = [(parts.vae, vae_optimizer, vae_loss), (parts.model, model_optimizer, model_loss)]
    for network, _, loss in pairs:
        learnt = list(network.parameters())
        for parameter, gradient in zip(learnt, torch.autograd.grad(loss, learnt)):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(learnt, weights.max_norm)
    for _, optimizer, _ in pairs:
        optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(parts.average.parameters(), parts.model.parameters()):
            slow.lerp_(fast, 1 - weights.decay)
    losses = {"reconstruction": reconstruction, "perceptual": perceptual, "kl": kl}
    losses |= {"align_vae": align_vae, "diffusion": diffusion, "align_model": align_model}
    return {name: loss.item() for name, loss in losses.items()}
    # </paper2code name="end-to-end training step">
