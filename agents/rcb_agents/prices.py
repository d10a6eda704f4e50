"""What a million tokens cost, for the models of the public benchmark's leaderboard.

List prices as they were published with it in 2025 (US dollars). Prices change: pass your own with
the model settings. A model that is not in the table has no known price, which is not the same as
no cost.
"""

from __future__ import annotations

from dataclasses import dataclass

from rcb_env import ModelSettings


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The cost of one call, in US dollars."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6


PRICES = {
    "anthropic/claude-3.5-haiku": Price(0.8, 4.0),
    "claude-3-5-sonnet-20241022": Price(3.0, 15.0),
    "claude-3-7-sonnet-20250219": Price(3.0, 15.0),
    "cohere/command-a": Price(2.5, 10.0),
    "deepseek-reasoner": Price(0.14, 2.19),
    "deepseek/deepseek-chat-v3-0324": Price(0.38, 0.89),
    "gemini-2.0-flash": Price(0.1, 0.4),
    "gemini-2.0-flash-lite": Price(0.075, 0.3),
    "gemini-2.5-flash-preview-04-17": Price(0.15, 0.6),
    "gemini-2.5-pro-preview-03-25": Price(1.25, 10.0),
    "gemini-2.5-pro-preview-05-06": Price(1.25, 10.0),
    "gpt-4.1-2025-04-14": Price(2.0, 8.0),
    "gpt-4.1-mini-2025-04-14": Price(0.4, 1.6),
    "gpt-4.1-nano-2025-04-14": Price(0.1, 0.4),
    "gpt-4o-2024-08-06": Price(2.5, 10.0),
    "gpt-4o-mini": Price(0.15, 0.6),
    "grok-2-1212": Price(2.0, 10.0),
    "grok-3-beta": Price(3.0, 15.0),
    "grok-3-mini-beta": Price(0.3, 0.5),
    "meta-llama/llama-3.3-70b-instruct": Price(0.1, 0.25),
    "meta-llama/llama-4-maverick": Price(0.17, 0.6),
    "meta-llama/llama-4-scout": Price(0.08, 0.3),
    "amazon/nova-pro-v1": Price(0.8, 3.2),
    "mistralai/codestral-2501": Price(0.3, 0.9),
    "mistralai/codestral-mamba": Price(0.25, 0.25),
    "mistralai/mistral-medium-3": Price(0.4, 2.0),
    "o1-2024-12-17": Price(15.0, 60.0),
    "o3-2025-04-16": Price(10.0, 40.0),
    "o3-mini-2025-01-31": Price(1.1, 4.4),
    "openai/o4-mini-high": Price(1.1, 4.4),
    "qwen/qwen-2.5-coder-32b-instruct": Price(0.06, 0.15),
    "qwen/qwen-turbo": Price(0.05, 0.2),
}


def price_of(settings: ModelSettings) -> Price | None:
    """The price set by the user, else the table's for this exact name, else None."""
    listed = PRICES.get(settings.name)
    given = (settings.input_usd_per_mtok, settings.output_usd_per_mtok)
    if given[0] is not None and given[1] is not None:
        return Price(given[0], given[1])
    if listed is None:
        return None
    return Price(
        listed.input if given[0] is None else given[0],
        listed.output if given[1] is None else given[1],
    )
