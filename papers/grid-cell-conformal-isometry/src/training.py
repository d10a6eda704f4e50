"""Learning the embedding, the motion model and the scaling factors together."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from embedding import PositionEmbedding
from losses import conformal_loss, transformation_loss


class GridModel(nn.Module):
    """An embedding, a motion model, and one scaling factor per module.

    Attributes:
        log_scale: (K,): logarithms of the scaling factors, which therefore stay positive.
        reach: how far the conformal isometry is asked for.
    """

    def __init__(
        self,
        embedding: PositionEmbedding,
        motion: nn.Module,
        scales: list[float],
        reach: float,
    ) -> None:
        super().__init__()
        self.embedding, self.motion, self.reach = embedding, motion, reach
        self.log_scale = nn.Parameter(torch.tensor(scales).log())


def train_step(
    model: GridModel,
    optimizer: torch.optim.Optimizer,
    places: Tensor,
    displacement: Tensor,
    path: Tensor,
    weight: float = 1.0,
    max_norm: float | None = None,
) -> dict[str, float]:
    """One step of gradient descent, and the projection after it.

    Args:
        model: changed in place.
        optimizer: over (some of) the parameters of ``model``.
        places, displacement: (B, 2): pairs for the conformal loss.
        path: (B', T + 1, 2): paths for the transformation loss.
        weight: of the transformation loss.
        max_norm: the norm that the gradient may have at most, over all parameters of the model
            together; None: any.

    Returns:
        ``conformal``, ``transformation``, ``total``, ``grad_norm`` (before clipping): plain floats.

    Raises:
        FloatingPointError: the total loss is not finite; neither the model nor the optimizer's
            state has been changed then.
    """
    # <paper2code name="projected training step">
    # <paper2code name="joint objective">
    conformal = conformal_loss(
        before=model.embedding(places),
        after=model.embedding(places + displacement),
        displacement=displacement,
        scale=model.log_scale.exp(),
        reach=model.reach,
    )
    transformation = transformation_loss(model.embedding, model.motion, path)
    total = conformal + weight * transformation
    # </paper2code name="joint objective">
    if not torch.isfinite(total):
        raise FloatingPointError("the loss is not finite")
    model.zero_grad()
    total.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    if max_norm is not None:
        for grad in grads:
            grad.mul_((max_norm / norm).clamp(max=1.0))
    optimizer.step()
    model.embedding.project_()
    return {
        "conformal": conformal.item(),
        "transformation": transformation.item(),
        "total": total.item(),
        "grad_norm": norm.item(),
    }
    # </paper2code name="projected training step">
