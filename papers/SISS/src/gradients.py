"""The gradient of SISS with a superfactor that follows from the norms of its two parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from losses import Terms, weighted_losses


def global_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Norm of all gradients put together: ()."""
    return torch.cat([gradient.flatten() for gradient in gradients]).norm()


def set_balanced_gradients(
    terms: Terms, total: int, unlearned: int, parameters: Iterable[Tensor], fraction: float
) -> float:
    """Set ``.grad`` of the parameters to the gradient of SISS.

    The superfactor makes the subtracted part ``fraction`` times as long as the other part.

    Args:
        terms: of a batch, with a graph.
        total: n.
        unlearned: k.
        parameters: of the model; those that do not require a gradient are left alone.
        fraction: how long the subtracted part becomes, relative to the other one.

    Returns:
        The superfactor s.

    Raises:
        ValueError: ``fraction`` is negative or not finite, no parameter requires a gradient, or the norm
            of one of the parts is not finite; ``.grad`` has not changed then.
    """
    # <paper2code name="gradient with a balanced superfactor">
    if not 0 <= fraction < float("inf"):
        raise ValueError(f"fraction must be finite and at least 0, not {fraction}")
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        raise ValueError("no parameter requires a gradient")
    keep, forget = weighted_losses(terms, total, unlearned)
    down = torch.autograd.grad(keep, trained, retain_graph=True, materialize_grads=True)
    up = torch.autograd.grad(forget, trained, materialize_grads=True)
    # <paper2code name="superfactor from gradient norms">
    descent, ascent = (global_norm(part).item() for part in (down, up))
    if not (math.isfinite(descent) and math.isfinite(ascent)):
        raise ValueError(f"gradients of norm {descent} and {ascent}")
    scale = fraction * descent / ascent if ascent > 0 else 0.0
    # </paper2code name="superfactor from gradient norms">
    for parameter, one, other in zip(trained, down, up):
        parameter.grad = one - scale * other
    return scale - 1
    # </paper2code name="gradient with a balanced superfactor">
