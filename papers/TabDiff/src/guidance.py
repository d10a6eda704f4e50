"""Classifier-free guidance for columns that are to be filled in."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from table import CATEGORIES, Prediction, Sizes, split_columns


def guided_prediction(
    joint: Prediction,
    alone: Prediction,
    num_targets: Sequence[int],
    cat_targets: Sequence[int],
    omega: float,
    sizes: Sizes,
) -> Prediction:
    """Strengthen what the known columns say about the target columns.

    Args:
        joint: by a network that sees all columns.
        alone: by a network that sees the target columns only, in the order of the targets.
        num_targets: which numerical columns are targets.
        cat_targets: which categorical columns are targets.
        omega: strength; 0 changes nothing.
        sizes: of all categorical columns.

    Returns:
        A prediction for all columns. The arguments are not changed in place.
    """
    # <paper2code name="guided prediction">
    noise = joint.noise.clone()
    for place, i in enumerate(num_targets):
        noise[:, i] = (1 + omega) * joint.noise[:, i] - omega * alone.noise[:, place]
    columns = split_columns(joint.logits, sizes)
    parts = split_columns(alone.logits, [sizes[j] for j in cat_targets])
    for part, j in zip(parts, cat_targets):
        both = (1 + omega) * columns[j] - omega * part
        columns[j] = both.log_softmax(dim=CATEGORIES)
    return Prediction(noise, torch.cat(columns, dim=CATEGORIES))
    # </paper2code name="guided prediction">
