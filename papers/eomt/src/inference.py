"""From predictions to semantic, instance and panoptic segmentations."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor
from torch.nn import functional as F

from structures import Instances, Panoptic, Prediction


def semantic_scores(prediction: Prediction, size: tuple[int, int]) -> Tensor:
    """How strongly each pixel belongs to each class: (B, C, H, W) with (H, W) = ``size``."""
    probs = prediction.classes.softmax(dim=-1)[..., :-1]
    masks = F.interpolate(prediction.masks, size, mode="bilinear").sigmoid()
    return torch.einsum("bkc,bkhw->bchw", probs, masks)


def windowed_scores(score: Callable[[Tensor], Tensor], image: Tensor, window: int) -> Tensor:
    """Scores of an image that is longer than what the model takes.

    Args:
        score: images (n, c, window, window) to scores (n, C, window, window); called once.
        image: (c, H, W), any number of channels; the shorter side is as long as the window.
        window: side of the square that the model takes.

    Returns:
        (C, H, W).

    Raises:
        ValueError: the shorter side is not as long as the window.
    """
    if min(image.shape[1:]) != window:
        raise ValueError(f"an image of {tuple(image.shape)} for windows of {window}")
    length = max(image.shape[1:])
    side = image.shape.index(length, 1)
    count = -(-length // window)
    starts = [index * (length - window) // max(count - 1, 1) for index in range(count)]
    crops = torch.stack([image.narrow(side, start, window) for start in starts])
    scores = score(crops)
    total = scores.new_zeros(scores.shape[1], *image.shape[1:])
    times = torch.zeros_like(total)
    for start, part in zip(starts, scores):
        total.narrow(side, start, window).add_(part)
        times.narrow(side, start, window).add_(1)
    return total / times


def instances(prediction: Prediction, size: tuple[int, int], most: int) -> list[Instances]:
    """The instances of each image; at most ``most`` of them, masks of the given size."""
    # <paper2code name="instances with scores">
    probs = prediction.classes.softmax(dim=-1)[..., :-1]
    logits = F.interpolate(prediction.masks, size, mode="bilinear")
    found = []
    for image_probs, image_logits in zip(probs, logits):
        likely = image_probs.flatten().topk(min(most, image_probs.numel()))
        labels = likely.indices % image_probs.shape[1]
        shapes = image_logits[likely.indices // image_probs.shape[1]]
        # <paper2code name="score of an instance">
        masks = shapes > 0
        area = masks.sum(dim=(1, 2))
        scores = likely.values * (shapes.sigmoid() * masks).sum(dim=(1, 2)) / area
        # </paper2code name="score of an instance">
        order = scores.argsort(descending=True)
        order = order[area[order] > 0]
        found.append(Instances(scores[order], labels[order], masks[order]))
    return found
    # </paper2code name="instances with scores">


def panoptic(
    prediction: Prediction,
    size: tuple[int, int],
    stuff: Collection[int],
    score_threshold: float = 0.8,
    overlap_threshold: float = 0.8,
) -> list[Panoptic]:
    """Cut each image into segments.

    Args:
        prediction: of B images.
        size: height and width of the segment maps.
        stuff: the classes whose segments are merged into one, as nobody counts them (sky, grass).
        score_threshold: queries that are less sure, or just so, are not used.
        overlap_threshold: how much of a mask must still be visible.
    """
    # <paper2code name="panoptic fusion">
    probs = prediction.classes.softmax(dim=-1)
    masks = F.interpolate(prediction.masks, size, mode="bilinear").sigmoid()
    found = []
    for image_probs, image_masks in zip(probs, masks):
        scores, classes = image_probs.max(dim=1)
        no_object = image_probs.shape[1] - 1
        kept = ((classes != no_object) & (scores > score_threshold)).nonzero().flatten()
        segment_map = torch.full(size, -1)
        labels, merged = [], {}
        if len(kept):
            winner = kept[(scores[kept, None, None] * image_masks[kept]).argmax(dim=0)]
        for query in kept.tolist():
            # <paper2code name="one query's segment">
            solid = image_masks[query] >= 0.5
            visible = solid & (winner == query)
            if not visible.any() or visible.sum() / solid.sum() < overlap_threshold:
                continue
            label = int(classes[query])
            number = merged.get(label, len(labels))
            if number == len(labels):
                labels.append(label)
            if label in stuff:
                merged[label] = number
            segment_map[visible] = number
            # </paper2code name="one query's segment">
        found.append(Panoptic(segment_map, labels))
    return found
    # </paper2code name="panoptic fusion">
