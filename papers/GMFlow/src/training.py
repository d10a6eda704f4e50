"""One step of training a class-conditional velocity model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from losses import transition_loss
from schedule import alpha, forward_variance, per_sample, sigma


def train_step(
    model: nn.Module,
    average: nn.Module,
    optimizer: torch.optim.Optimizer,
    x0: Tensor,
    labels: Tensor,
    null_label: int,
    generator: torch.Generator,
    ratio: float = 0.5,
    drop: float = 0.1,
    max_norm: float = 1.0,
    decay: float = 0.99,
) -> float:
    """Draw a transition of the forward process, learn to reverse it, and update the average.

    Draws from ``generator``, in this order and in the dtype of ``x0``: ``torch.randn`` of (B,) for the times,
    ``torch.randn`` like ``x0`` for the noise at time s, ``torch.randn`` like ``x0`` for the noise on the way to
    time t, ``torch.rand`` of (B,) for the labels.

    Args:
        model: called as ``model(x_t, t, labels)``, gives a GaussianMixture of velocities.
        average: a copy of the model, whose parameters follow slowly.
        x0: (B, C, H, W), data.
        labels: (B,), int64; not changed in place.
        null_label: the label that stands for "no condition".
        ratio: length of the transition as a share of t.
        drop: probability that a sample loses its label.
        max_norm: bound on the norm of all gradients together.
        decay: how much of itself the average keeps.

    Returns:
        The mean loss of the batch, before the update.

    Raises:
        ValueError: ``ratio`` is not in (0, 1]; nothing has been drawn or changed then.
    """
    # <paper2code name="training step">
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio must be in (0, 1], not {ratio}")
    like = {"generator": generator, "dtype": x0.dtype}
    t = torch.randn(len(x0), **like).sigmoid()
    # <paper2code name="forward path at two times">
    s = (1 - ratio) * t
    noise = torch.randn(x0.shape, **like)
    x_s = per_sample(alpha(s), 4) * x0 + per_sample(sigma(s), 4) * noise
    noise = torch.randn(x0.shape, **like)
    fade, spread = alpha(t) / alpha(s), forward_variance(t, s).sqrt()
    x_t = per_sample(fade, 4) * x_s + per_sample(spread, 4) * noise
    # </paper2code name="forward path at two times">
    # <paper2code name="label dropout">
    labels = labels.masked_fill(torch.rand(len(x0), **like) < drop, null_label)
    # </paper2code name="label dropout">
    loss = transition_loss(model(x_t, t, labels), x_t, x_s, t, s).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), model.parameters()):
            slow.lerp_(fast, 1 - decay)
    return loss.item()
    # </paper2code name="training step">
