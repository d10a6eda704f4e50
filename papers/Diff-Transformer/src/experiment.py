"""Train a tiny differential transformer to copy values of needles."""

from __future__ import annotations

import torch

from decoder import Decoder, language_loss
from retrieval import hide_needles


def batch_of_prompts(size: int, length: int, generator: torch.Generator) -> torch.Tensor:
    """Texts with three needles and one question each, the answer at the end."""
    rows = []
    for _ in range(size):
        draws = torch.randint(20, 40, (length,), generator=generator).tolist()
        keys = (2 + torch.randperm(8, generator=generator)[:3]).tolist()
        values = torch.randint(10, 20, (3,), generator=generator).tolist()
        depths = torch.rand(3, generator=generator).tolist()
        prompt = hide_needles(draws, list(zip(keys, values)), depths, keys[:1])
        rows.append(prompt.tokens + prompt.answers)
    return torch.tensor(rows)


def main(steps: int = 100) -> None:
    """Print the loss of the answers."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = Decoder(40, 32, 2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        tokens = batch_of_prompts(16, 16, generator)
        logits, _ = model(tokens)
        loss = language_loss(logits[:, -2:], tokens[:, -2:], ignored=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"{step:4d} {loss.item():.3f}")


if __name__ == "__main__":
    main()
