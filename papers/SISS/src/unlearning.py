"""Unlearning: fine-tune a trained model until it is as if it had never seen some images."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from batches import unlearning_batch
from gradients import set_balanced_gradients
from losses import separate_terms, siss_terms
from optimizer import AdamW
from schedule import Schedule


@dataclass(frozen=True)
class Settings:
    """How to unlearn.

    Attributes:
        mixing: lambda; None: without importance sampling.
        fraction: length of the subtracted gradient, relative to the other one.
        updates: how many.
        batch: B.
        rate: learning rate.
        weight_decay: of AdamW.
        max_norm: gradients are clipped to this norm.
        decay: of the moving average of the parameters.
    """

    mixing: float | None = 0.5
    fraction: float = 0.1
    updates: int = 60
    batch: int = 8
    rate: float = 5e-6
    weight_decay: float = 0.0
    max_norm: float = 1.0
    decay: float = 0.995


class Unlearned(NamedTuple):
    """What came out.

    Attributes:
        average: a copy of the model with the moving average of the parameters.
        superfactors: s of each update.
        norms: norm of the gradient of each update, before it was clipped.
    """

    average: nn.Module
    superfactors: list[float]
    norms: list[float]


def unlearn(
    model: nn.Module,
    data: Tensor,
    forget: Tensor,
    schedule: Schedule,
    settings: Settings,
    generator: torch.Generator,
) -> Unlearned:
    """Unlearn images ``data[forget]``; ``model`` is trained in place, in the mode that it is in.

    Args:
        model: predicts the noise.
        data: (n, ...): everything the model was trained on.
        forget: (k,), int64.
        schedule: the forward process.
        settings: how to unlearn.
        generator: source of all randomness.
    """
    # <paper2code name="unlearning loop">
    average = copy.deepcopy(model)
    optimizer = AdamW(model.parameters(), settings.weight_decay)
    superfactors, norms = [], []
    for _ in range(settings.updates):
        kept, forgotten = unlearning_batch(data, forget, settings.batch, generator)
        timesteps = torch.randint(schedule.steps, (settings.batch,), generator=generator)
        if settings.mixing is None:
            both = (2 * settings.batch, *kept.shape[1:])
            noise = torch.randn(both, dtype=data.dtype, generator=generator)
            terms = separate_terms(model, schedule, kept, forgotten, timesteps, noise)
        else:
            noise = torch.randn(kept.shape, dtype=data.dtype, generator=generator)
            uniforms = torch.rand(settings.batch, generator=generator)
            terms = siss_terms(
                model, schedule, kept, forgotten, timesteps, noise, uniforms, settings.mixing
            )
        superfactors.append(
            set_balanced_gradients(
                terms, len(data), len(forget), model.parameters(), settings.fraction
            )
        )
        norm = nn.utils.clip_grad_norm_(model.parameters(), settings.max_norm)
        norms.append(norm.item())
        optimizer.step(settings.rate)
        # <paper2code name="moving average of parameters">
        for mean, parameter in zip(average.parameters(), model.parameters()):
            mean.data.lerp_(parameter.data, 1 - settings.decay)
        # </paper2code name="moving average of parameters">
    return Unlearned(average, superfactors, norms)
    # </paper2code name="unlearning loop">
