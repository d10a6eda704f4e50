"""Images to sequences of smaller images, and back."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def split(images: Tensor, size: int) -> Tensor:
    """Cut images into square patches.

    Args:
        images: (B, C, H, W).
        size: side of a patch.

    Returns:
        (B, N, C, size, size), row by row.

    Raises:
        ValueError: height or width is no multiple of the size.
    """
    # <paper2code name="image to patches">
    batch, channels, height, width = images.shape
    if height % size or width % size:
        raise ValueError(f"{height}x{width} pixels in patches of {size}")
    grid = images.reshape(batch, channels, height // size, size, width // size, size)
    grid = torch.einsum("bchywx->bhwcyx", grid)
    return grid.reshape(batch, -1, channels, size, size)
    # </paper2code name="image to patches">


def join(patches: Tensor, rows: int) -> Tensor:
    """The inverse of `split`: (B, N, C, p, p) to images with ``rows`` rows of patches."""
    batch, count, channels, size, _ = patches.shape
    columns = count // rows
    grid = patches.reshape(batch, rows, columns, channels, size, size)
    return torch.einsum("bhwcyx->bchywx", grid).reshape(batch, channels, rows * size, columns * size)


def with_neighbours(outputs: Tensor, rows: int, causal: bool) -> Tensor:
    """Put beside each patch's output those of the patches around it.

    Args:
        outputs: (B, N, D), row by row.
        rows: how many rows of patches.
        causal: whether patches were made one after the other.

    Returns:
        (B, N, 5, D): the patch itself, above, right, below, left; zeros where there is none.
    """
    # <paper2code name="outputs of the patches around">
    grid = outputs.unflatten(1, (rows, -1))  # (B, rows, columns, D)
    padded = F.pad(grid, (0, 0, 1, 1, 1, 1))
    above, below = padded[:, :-2, 1:-1], padded[:, 2:, 1:-1]
    left, right = padded[:, 1:-1, :-2], padded[:, 1:-1, 2:]
    if causal:
        right, below = torch.zeros_like(grid), torch.zeros_like(grid)
    return torch.stack([grid, above, right, below, left], dim=3).flatten(1, 2)
    # </paper2code name="outputs of the patches around">
