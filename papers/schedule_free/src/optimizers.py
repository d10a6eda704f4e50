"""Schedule-Free SGD and Schedule-Free AdamW as torch optimisers.

In training mode the parameters hold y, where gradients are taken; in evaluation mode they hold the average x, which is
what to test and to save. z lies in the optimiser's state, so memory is that of SGD with momentum or of AdamW. A new
optimiser is in training mode. The state of a parameter begins with its first gradient; until then x, y and z coincide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from points import average_point, gradient_point
from weighting import Progress, averaging_coefficient, warmup_factor


class ScheduleFree(torch.optim.Optimizer):
    """What both methods share; a method adds the direction of the step of z.

    Each parameter group holds the settings, the three numbers of `Progress`, and "training": whether its parameters
    are y (True) or x (False).

    Args:
        params: parameters or parameter groups.
        lr: step size after warm-up.
        beta: share of the average in the point where gradients are taken, in (0, 1].
        weight_decay: decoupled weight decay.
        decay_at: "y" or "z", the point that the decay is computed from.
        warmup_steps: steps of linear warm-up.
        r: power of the step number in the averaging weights.
        weight_power: power of the largest step size in the averaging weights.
        method: settings of the method.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        beta: float,
        weight_decay: float,
        decay_at: str,
        warmup_steps: int,
        r: float,
        weight_power: float,
        **method: float,
    ) -> None:
        if lr < 0 or weight_decay < 0:
            raise ValueError("lr and weight_decay must not be negative")
        if not 0 < beta <= 1:
            raise ValueError("beta must lie in (0, 1]")
        if decay_at not in ("y", "z"):
            raise ValueError('decay_at must be "y" or "z"')
        defaults = {
            "lr": lr,
            "beta": beta,
            "weight_decay": weight_decay,
            "decay_at": decay_at,
            "warmup_steps": warmup_steps,
            "r": r,
            "weight_power": weight_power,
            "training": True,
            **Progress()._asdict(),
            **method,
        }
        super().__init__(params, defaults)

    @property
    def training(self) -> bool:
        """Whether the parameters of all groups hold y."""
        return all(group["training"] for group in self.param_groups)

    def direction(self, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """The direction of the step of z, with grad's shape; may keep what it needs in `state`."""
        raise NotImplementedError

    def train(self) -> None:
        """Put y into the parameters. Call it before the forward pass of a training step."""
        self._switch(True)

    def eval(self) -> None:
        """Put the average x into the parameters. Call it before evaluating or saving the model."""
        self._switch(False)

    @torch.no_grad()
    def _switch(self, training: bool) -> None:
        # <paper2code name="switch the parameters between y and x">
        for group in self.param_groups:
            if group["training"] == training:
                continue
            group["training"] = training
            for p in group["params"]:
                if p not in self.state:
                    continue
                point = gradient_point if training else average_point
                p.copy_(point(p, self.state[p]["z"], group["beta"]))
        # </paper2code name="switch the parameters between y and x">

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Take one step in all groups.

        Args:
            closure: clears the gradients, computes the loss at y, calls backward and returns the loss.

        Returns:
            What the closure returned, or None without one.

        Raises:
            RuntimeError: the optimiser is in evaluation mode.
        """
        # <paper2code name="one Schedule-Free step over all groups">
        if not self.training:
            raise RuntimeError("the parameters hold x; call train() before step()")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            # <paper2code name="step size and averaging coefficient of this step">
            progress = Progress(group["step"], group["lr_max"], group["weight_sum"])
            lr = group["lr"] * warmup_factor(progress.step + 1, group["warmup_steps"])
            c, progress = averaging_coefficient(progress, lr, group["r"], group["weight_power"])
            group.update(progress._asdict())
            # </paper2code name="step size and averaging coefficient of this step">
            for y in group["params"]:
                if y.grad is None:
                    continue
                state = self.state[y]
                if not state:
                    state["z"] = y.clone()
                # <paper2code name="move z, x and y with weight decay">
                z, beta = state["z"], group["beta"]
                x = average_point(y, z, beta)
                decay = group["weight_decay"] * (y if group["decay_at"] == "y" else z)
                z.sub_(lr * (self.direction(y.grad, state, group) + decay))
                x.lerp_(z, c)
                y.copy_(gradient_point(x, z, beta))
                # </paper2code name="move z, x and y with weight decay">
        return loss
        # </paper2code name="one Schedule-Free step over all groups">


class ScheduleFreeSGD(ScheduleFree):
    """Schedule-Free SGD: z moves against the gradient taken at y."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        *,
        beta: float = 0.9,
        weight_decay: float = 0.0,
        decay_at: str = "y",
        warmup_steps: int = 0,
        r: float = 0.0,
        weight_power: float = 2.0,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            beta=beta,
            weight_decay=weight_decay,
            decay_at=decay_at,
            warmup_steps=warmup_steps,
            r=r,
            weight_power=weight_power,
        )

    def direction(self, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """The gradient itself."""
        return grad


class ScheduleFreeAdamW(ScheduleFree):
    """Schedule-Free AdamW: the average takes the place of Adam's momentum.

    The state of a parameter holds "v", the running mean of the squared gradients, and "updates", how many gradients
    went into it.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.0025,
        *,
        beta: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decay_at: str = "y",
        warmup_steps: int = 0,
        r: float = 0.0,
        weight_power: float = 2.0,
    ) -> None:
        if not 0 <= beta2 < 1 or eps < 0:
            raise ValueError("beta2 must lie in [0, 1) and eps must not be negative")
        super().__init__(
            params,
            lr=lr,
            beta=beta,
            weight_decay=weight_decay,
            decay_at=decay_at,
            warmup_steps=warmup_steps,
            r=r,
            weight_power=weight_power,
            beta2=beta2,
            eps=eps,
        )

    def direction(self, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """The gradient over the root of the bias-corrected second moment."""
        # <paper2code name="Adam direction with bias correction">
        if "v" not in state:
            state["v"] = torch.zeros_like(grad)
            state["updates"] = 0
        state["updates"] += 1
        state["v"].lerp_(grad.square(), 1 - group["beta2"])
        v_hat = state["v"] / (1 - group["beta2"] ** state["updates"])
        return grad / (v_hat.sqrt() + group["eps"])
        # </paper2code name="Adam direction with bias correction">
