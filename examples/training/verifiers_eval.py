"""An evaluation with `verifiers`: its endpoint, limits and traces around our challenges.

    pip install 'rcb-env[verifiers]'
    python examples/training/verifiers_eval.py --model NAME --base-url http://127.0.0.1:8000/v1

Its own command does the same: ``vf-eval rcb-verifiers --env.taskset.papers '["DyT"]' ...``. Without an
address a scripted model answers that knows the solutions, so this shows that the parts fit.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from needs import require
from scripted import scripted_model


@contextlib.contextmanager
def model_at(url: str | None) -> Iterator[str]:
    """The address of a model: the user's, or that of the scripted one."""
    if url is not None:
        yield url
        return
    with scripted_model() as scripted:
        yield scripted


async def evaluate(model: str, url: str, taskset: dict[str, Any]) -> list[Any]:
    """One episode of every task."""
    import verifiers.v1 as vf

    env = vf.load_environment(
        vf.resolve_env_config({"taskset": {"id": "rcb-verifiers", **taskset}})
    )
    client = vf.EvalClientConfig(base_url=url, api_key_var="OPENAI_API_KEY")
    ctx = vf.ModelContext(model=model, client=client, sampling=vf.SamplingConfig())
    async with env.serving():
        return list(await asyncio.gather(*(env.run_episode(task, ctx) for task in env.taskset)))


def main() -> None:
    """Evaluate, and tell each trace in a line."""
    parser = argparse.ArgumentParser(description="An evaluation with verifiers.")
    parser.add_argument("--model", default="scripted")
    parser.add_argument("--base-url", help="of an OpenAI-compatible server")
    parser.add_argument("--papers", nargs="*", default=["DyT"])
    chosen = parser.parse_args()
    require("verifiers", "verifiers.v1")
    with model_at(chosen.base_url) as url:
        episodes = asyncio.run(evaluate(chosen.model, url, {"papers": chosen.papers}))
    rewards = []
    for episode in episodes:
        for trace in episode.traces:
            earned = trace.rewards.get("earned")
            if earned is None or trace.errors:
                print(f"{trace.task.data.id}: {trace.errors}")
                continue
            rewards.append(earned.value)
            print(f"{trace.task.data.id}: {trace.state.status}, {trace.num_turns} turns")
    print(f"mean reward {sum(rewards) / max(1, len(rewards)):.2f} of {len(rewards)} episodes")


if __name__ == "__main__":
    main()
