"""What the parts of the method hand to each other."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Prediction(NamedTuple):
    """What K queries say about each of B images with C classes.

    Attributes:
        classes: (B, K, C + 1): class logits; the last class is "no object".
        masks: (B, K, h, w): mask logits.
    """

    classes: Tensor
    masks: Tensor


class Target(NamedTuple):
    """The M objects and regions of one image; M may be 0.

    Attributes:
        labels: (M,), int64: their classes, from 0 to C - 1.
        masks: (M, H, W), bool: their pixels; H and W are the same for all images of a batch.
    """

    labels: Tensor
    masks: Tensor


class Instances(NamedTuple):
    """The instances found in one image, the surest first.

    Attributes:
        scores: (n,): how sure the model is.
        labels: (n,), int64: their classes.
        masks: (n, H, W), bool: their pixels.
    """

    scores: Tensor
    labels: Tensor
    masks: Tensor


class Panoptic(NamedTuple):
    """One image, cut into segments that do not overlap.

    Attributes:
        segment_map: (H, W), int64: the number of each pixel's segment, -1 where there is none.
        labels: the class of each segment, by its number.
    """

    segment_map: Tensor
    labels: list[int]
