"""Fine-tuning a diffusion model on pairs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from losses import DPOLoss, diffusion_dpo_loss, squared_norms
from optimizer import AdamW
from preferences import Pairs, with_dropped_prompts
from schedule import Schedule
from weighting import timestep_weights


@dataclass(frozen=True)
class Settings:
    """How to fine-tune.

    Attributes:
        beta: strength of the KL regularisation.
        weighting: kind of the timestep weights.
        prompt_dropout: probability that a pair is trained on without its prompt.
        learning_rate: of AdamW, after the warm-up, for a beta of ``reference_beta``.
        reference_beta: see ``learning_rate``.
        warmup: number of updates until the learning rate is reached.
        accumulate: number of batches per update.
        weight_decay: of AdamW.
    """

    beta: float = 2000.0
    weighting: str = "constant"
    prompt_dropout: float = 0.1
    learning_rate: float = 2.048e-8
    reference_beta: float = 2000.0
    warmup: int = 500
    accumulate: int = 1
    weight_decay: float = 0.01


def preference_loss(
    policy: nn.Module,
    reference: nn.Module,
    schedule: Schedule,
    pairs: Pairs,
    settings: Settings,
    generator: torch.Generator,
) -> DPOLoss:
    """The Diffusion-DPO loss of a batch at random timesteps; gradients flow into ``policy`` only.

    Each model is called exactly once, with the preferred images before the rejected ones.
    """
    # <paper2code name="loss of a batch of pairs">
    count = len(pairs.prompts)
    # <paper2code name="timesteps, noise and prompts of pairs">
    timesteps = torch.randint(schedule.steps, (count,), generator=generator)
    noise = torch.randn(
        pairs.preferred.shape, dtype=pairs.preferred.dtype, generator=generator
    )
    uniforms = torch.rand(count, generator=generator)
    prompts = with_dropped_prompts(pairs.prompts, uniforms, settings.prompt_dropout)
    # </paper2code name="timesteps, noise and prompts of pairs">
    noise = torch.cat([noise, noise])
    images = torch.cat([pairs.preferred, pairs.rejected])
    inputs = (schedule.noised(images, noise, timesteps.repeat(2)), timesteps.repeat(2))
    policy_errors = squared_norms(policy(*inputs, prompts.repeat(2)) - noise)
    with torch.no_grad():
        reference_errors = squared_norms(reference(*inputs, prompts.repeat(2)) - noise)
    weights = timestep_weights(schedule, timesteps, settings.weighting)
    return diffusion_dpo_loss(
        policy_errors, reference_errors, weights, settings.beta, schedule.steps
    )
    # </paper2code name="loss of a batch of pairs">


def fine_tune(
    policy: nn.Module,
    schedule: Schedule,
    batches: Sequence[Pairs],
    settings: Settings,
    generator: torch.Generator,
) -> list[float]:
    """Fine-tune ``policy`` in place; the reference is the policy as it is given.

    Returns:
        The loss of each update, before that update.
    """
    # <paper2code name="fine-tuning loop">
    reference = copy.deepcopy(policy).eval()
    peak = settings.learning_rate * settings.reference_beta / settings.beta
    optimizer = AdamW(policy.parameters(), settings.weight_decay)
    policy.train()
    history: list[float] = []
    for start in range(0, len(batches), settings.accumulate):
        group = batches[start : start + settings.accumulate]
        warm = min(1.0, (len(history) + 1) / settings.warmup)
        optimizer.clear()
        total = 0.0
        for pairs in group:
            made = preference_loss(policy, reference, schedule, pairs, settings, generator)
            (made.loss / len(group)).backward()
            total += made.loss.item()
        optimizer.step(peak * warm)
        history.append(total / len(group))
    return history
    # </paper2code name="fine-tuning loop">
