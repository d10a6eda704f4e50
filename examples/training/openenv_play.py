"""A challenge over OpenEnv's protocol: a server in a process of its own, and a client.

    pip install 'rcb-env[openenv]'
    python examples/training/openenv_play.py

Against a server that runs already: ``--url http://HOST:PORT``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from needs import require

import rcb_env


def play(url: str, challenge: str) -> float:
    """Write the reference, test it, submit it; returns what that has earned."""
    from rcb_env.adapters.openenv import ChallengeAction, ChallengeClient

    code = rcb_env.load_dataset().challenge(challenge).reference
    earned = 0.0
    with ChallengeClient(base_url=url).sync() as env:
        result = env.reset(challenge=challenge)
        print(result.observation.text.splitlines()[0])
        for action in (
            ChallengeAction(tool="write_region", arguments={"code": code}),
            ChallengeAction(tool="run_tests"),
            ChallengeAction(tool="submit"),
        ):
            result = env.step(action)
            earned += float(result.reward or 0.0)
            print(f"{action.tool}: {result.observation.text.splitlines()[0]}")
    return earned


def main() -> None:
    """Serve, unless there is a server, and play."""
    parser = argparse.ArgumentParser(description="A challenge over OpenEnv's protocol.")
    parser.add_argument("--challenge", default="DyT/forward")
    parser.add_argument("--url", help="of a server that runs already")
    chosen = parser.parse_args()
    require("openenv", "openenv.core")
    if chosen.url:
        print(f"reward {play(chosen.url, chosen.challenge)}")
        return
    command = [sys.executable, "-m", "rcb_env.adapters.openenv", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            print(f"reward {play(server.stdout.readline().strip(), chosen.challenge)}")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
