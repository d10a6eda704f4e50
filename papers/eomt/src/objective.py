"""What training minimises."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from matching import CLASS_WEIGHT, CROSS_ENTROPY_WEIGHT, DICE_WEIGHT, match
from points import sample_points, uncertain_points
from structures import Prediction, Target

NO_OBJECT_WEIGHT = 0.1


def mask_losses(logits: Tensor, masks: Tensor, num_masks: int) -> tuple[Tensor, Tensor]:
    """Losses of matched masks at P points.

    Args:
        logits: (..., P): mask logits, for any number of masks.
        masks: (..., P): values from 0 to 1: what they should be, in the dtype of the logits.
        num_masks: what the sum over masks is divided by.

    Returns:
        Binary cross-entropy and dice loss, no dimensions.
    """
    cross_entropy = F.binary_cross_entropy_with_logits(logits, masks, reduction="none")
    probs = logits.sigmoid()
    common = (probs * masks).sum(dim=-1)
    dice = 1 - (2 * common + 1) / ((probs + masks).sum(dim=-1) + 1)
    return cross_entropy.mean(dim=-1).sum() / num_masks, dice.sum() / num_masks


def class_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of classes (B, K, C + 1) with labels (B, K), "no object" counting less."""
    weights = logits.new_ones(logits.shape[-1])
    weights[-1] = NO_OBJECT_WEIGHT
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), weight=weights)


def objective(
    predictions: Sequence[Prediction],
    targets: Sequence[Target],
    num_points: int,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """The objective of a batch, with supervision of all predictions.

    Args:
        predictions: what `EoMT` returned; the draws go through them in this order.
        targets: one for each image.
        num_points: P, for matching and for the losses.
        generator: for each prediction it makes the draws of `match`, image by image, then those of
            `uncertain_points`.

    Returns:
        "cross_entropy", "dice" and "class", each summed over the predictions, and "total", their
        weighted sum; no dimensions.
    """
    # <paper2code name="objective with deep supervision">
    num_masks = max(sum(len(target.labels) for target in targets), 1)
    losses = {"cross_entropy": 0.0, "dice": 0.0, "class": 0.0}
    for prediction in predictions:
        labels = torch.full(prediction.classes.shape[:2], prediction.classes.shape[2] - 1)
        logits, masks = [], []
        for image, target in enumerate(targets):
            # <paper2code name="what the queries of an image should say">
            classes, shapes = prediction.classes[image], prediction.masks[image]
            queries, objects = match(classes, shapes, *target, num_points, generator)
            labels[image, queries] = target.labels[objects]
            logits.append(shapes[queries])
            masks.append(target.masks[objects])
            # </paper2code name="what the queries of an image should say">
        matched = torch.cat(logits)[:, None]  # (all matches, 1, h, w)
        wanted = torch.cat(masks)[:, None].to(matched.dtype)  # (all matches, 1, H, W)
        points = uncertain_points(matched.detach(), num_points, generator)
        cross_entropy, dice = mask_losses(
            sample_points(matched, points), sample_points(wanted, points), num_masks
        )
        losses["cross_entropy"] += cross_entropy
        losses["dice"] += dice
        losses["class"] += class_loss(prediction.classes, labels)
    losses["total"] = (
        CROSS_ENTROPY_WEIGHT * losses["cross_entropy"]
        + DICE_WEIGHT * losses["dice"]
        + CLASS_WEIGHT * losses["class"]
    )
    return losses
    # </paper2code name="objective with deep supervision">
