"""Random batches of images to keep and images to forget."""

from __future__ import annotations

import torch
from torch import Tensor


def unlearning_batch(
    data: Tensor, forget: Tensor, size: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw with replacement from the whole data set and from the unlearning set.

    Args:
        data: (n, ...): all images, those to forget included.
        forget: (k,), int64: which of them shall be forgotten.
        size: B.
        generator: source of randomness.

    Returns:
        x and a, both (B, ...).

    Raises:
        ValueError: ``forget`` names an image twice, names one that does not exist, or does not leave
            and take at least one image.
    """
    # <paper2code name="batch of kept and forgotten images">
    n, k = len(data), len(forget)
    if not 0 < k < n or len(forget.unique()) < k:
        raise ValueError(f"{k} of {n} images to forget, or some twice")
    if (forget < 0).any() or (forget >= n).any():
        raise ValueError(f"images are numbered 0 .. {n - 1}")
    rows = torch.randint(n, (size,), generator=generator)
    chosen = torch.randint(k, (size,), generator=generator)
    return data[rows], data[forget[chosen]]
    # </paper2code name="batch of kept and forgotten images">
