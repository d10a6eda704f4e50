"""Initial values of alpha in language models, where the default is not good enough.

What matters is the width of the model and where a layer stands: the layers in front of attention
start with a larger alpha than all the others. Depth plays no role.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np
import torch
from torch import nn

from dynamic_tanh import DynamicTanh


def llm_alpha(width: int, role: str) -> float:
    """The initial alpha of a layer in a language model of the given width.

    Args:
        width: the model dimension.
        role: "attention" for a layer in front of attention, "other" for every other one.

    Raises:
        ValueError: ``width`` is less than 1, or there is no such role.
    """
    # <paper2code name="initial alpha for a width">
    widths = (1024, 2048, 4096, 8192)
    alphas = {"attention": (1.0, 1.0, 0.8, 0.2), "other": (1.0, 0.5, 0.2, 0.05)}
    if role not in alphas or width < 1:
        raise ValueError(f"no initial alpha for width {width} and role {role!r}")
    return float(np.interp(np.log2(width), np.log2(widths), alphas[role]))
    # </paper2code name="initial alpha for a width">


@torch.no_grad()
def set_llm_alphas(
    model: nn.Module, width: int, attention_norms: Container[str] = ("attention_norm",)
) -> dict[str, float]:
    """Give every DyT layer of a language model the initial alpha of its role.

    Args:
        model: the model; changed in place.
        width: the model dimension.
        attention_norms: the layers with one of these names (the last part of the dotted name)
            stand in front of attention.

    Returns:
        The value set, by full dotted name of the layer.

    Raises:
        ValueError: the model has no DyT layer.
    """
    # <paper2code name="set alphas by role">
    assigned: dict[str, float] = {}
    for path, module in model.named_modules():
        if isinstance(module, DynamicTanh):
            role = "attention" if path.split(".")[-1] in attention_norms else "other"
            module.alpha_init = assigned[path] = llm_alpha(width, role)
            module.alpha.fill_(assigned[path])
    if not assigned:
        raise ValueError("the model has no DynamicTanh layer")
    return assigned
    # </paper2code name="set alphas by role">
