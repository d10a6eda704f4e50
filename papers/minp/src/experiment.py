"""Creativity against coherence: compare samplers over temperatures on a tiny language model."""

from __future__ import annotations

from typing import NamedTuple

import torch

from distribution import SamplerSettings
from diversity import diversity
from generation import generate
from language_model import BigramModel

TEMPERATURES = (0.7, 1.0, 1.5, 2.0, 3.0)
SAMPLERS = {
    "temperature only": {},
    "top-k 10": {"top_k": 10},
    "top-p 0.9": {"top_p": 0.9},
    "typical 0.9": {"typical_p": 0.9},
    "eta 0.0002": {"eta": 0.0002},
    "min-p 0.1": {"min_p": 0.1},
}


class Point(NamedTuple):
    """One sampler at one temperature."""

    sampler: str
    temperature: float
    coherence: float
    within: float
    between: float


def sharp_language(vocabulary: int, generator: torch.Generator) -> BigramModel:
    """A language in which few tokens are likely to follow, with a long tail of unlikely ones."""
    return BigramModel(3.0 * torch.randn(vocabulary, vocabulary, generator=generator))


def compare(vocabulary: int = 64, samples: int = 8, steps: int = 40, seed: int = 0) -> list[Point]:
    """Generate with every sampler at every temperature; all use the same uniform numbers."""
    generator = torch.Generator().manual_seed(seed)
    model = sharp_language(vocabulary, generator)
    prompts = torch.ones(samples, 1, dtype=torch.long)
    uniforms = torch.rand(samples, steps, generator=generator)
    points = []
    for name, truncation in SAMPLERS.items():
        for temperature in TEMPERATURES:
            settings = SamplerSettings(temperature=temperature, **truncation)
            made = generate(model, prompts, settings, uniforms, end=0, padding=0)
            texts = [row[1 : 1 + n].tolist() for row, n in zip(made.tokens, made.lengths)]
            spread = diversity(texts)
            coherence = made.coherence().mean().item()
            points.append(Point(name, temperature, coherence, spread.within, spread.between))
    return points


def main() -> None:
    """Print the table."""
    for point in compare():
        numbers = "  ".join(f"{value:8.3f}" for value in point[1:])
        print(f"{point.sampler:18s}{numbers}")


if __name__ == "__main__":
    main()
