"""Challenges behind OpenEnv's protocol: everything is in `rcb_env.adapters.openenv`.

server --papers DyT --sessions 16                   # every option: server --help
uvicorn server.app:app --host 0.0.0.0 --port 8000   # with the defaults
"""

from __future__ import annotations

from rcb_env.adapters import openenv

app = openenv.application()


def main() -> None:
    """Serve, with the options of the command line."""
    openenv.main()


if __name__ == "__main__":
    main()
