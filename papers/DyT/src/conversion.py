"""Exchange the normalization layers of an existing model for DyT layers."""

from __future__ import annotations

from collections.abc import Container

import torch
from torch import nn

from blocks import LayerNorm2d
from dynamic_tanh import DEFAULT_ALPHA, DynamicTanh


@torch.no_grad()
def convert_norms(
    model: nn.Module,
    alpha_init: float = DEFAULT_ALPHA,
    keep_affine: bool = False,
    skip: Container[str] = (),
) -> nn.Module:
    """Exchange every LayerNorm and RMSNorm in ``model`` (in place) for a DyT layer.

    Args:
        model: any module; it may be a normalization layer itself.
        alpha_init: initial alpha of every new layer.
        keep_affine: start from the trained scale and shift of the old layers.
        skip: full dotted names of layers to leave alone.

    Returns:
        ``model``, or the new layer if ``model`` itself was exchanged.

    Raises:
        ValueError: a layer to exchange normalizes over more than one dimension; the model is
            then left as it was.
    """
    # <paper2code name="replace normalization layers">
    places: dict[nn.Module, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, (nn.LayerNorm, nn.RMSNorm)) and path not in skip:
            if len(module.normalized_shape) != 1:
                raise ValueError(f"{path}: a norm over {tuple(module.normalized_shape)}")
            places.setdefault(module, []).append(path)
    for norm, paths in places.items():
        (channels,) = norm.normalized_shape
        layer = DynamicTanh(channels, alpha_init, not isinstance(norm, LayerNorm2d))
        layer.train(norm.training)
        if norm.weight is not None:
            layer.to(norm.weight)
        # <paper2code name="keep the trained scale and shift">
        if keep_affine:
            for name in ("weight", "bias"):
                trained = getattr(norm, name, None)
                if trained is not None:
                    getattr(layer, name).copy_(trained)
        # </paper2code name="keep the trained scale and shift">
        for path in paths:
            if not path:
                return layer
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, layer)
    return model
    # </paper2code name="replace normalization layers">
