"""Compare kinds of attention on functions that were held out of training."""

from __future__ import annotations

import torch

from fuzzy import all_functions, hold_out, prompts
from training import learning_rate, training_step
from transformer import Transformer


def compare(kind: str, steps: int = 200, batch: int = 32, examples: int = 24) -> float:
    """Train on fuzzy logic with one kind of attention; returns the error on held-out functions."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    functions = all_functions(3, 2)
    order = torch.randperm(len(functions), generator=generator).tolist()
    known, held = hold_out(functions, order, len(functions) // 4)
    table = torch.tensor(functions)
    model = Transformer(4, 1, examples, kind=kind)

    def loss_on(indices: list[int]) -> torch.Tensor:
        chosen = torch.randint(len(indices), (batch,), generator=generator)
        terms = table[torch.tensor(indices)[chosen]]
        tokens, wanted = prompts(terms, torch.rand(batch, examples, 3, generator=generator))
        return (model(tokens)[0][:, 0] - wanted).square().mean()

    moments: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for step in range(steps):
        rate = learning_rate(step, 3e-3, steps // 10, steps)
        training_step(model, lambda: loss_on(known), moments, step, rate)
    with torch.no_grad():
        return sum(loss_on(held).item() for _ in range(20)) / 20


if __name__ == "__main__":
    for kind in ("softmax", "linear", "hyla"):
        print(f"{kind:8s}{compare(kind):.4f}")
