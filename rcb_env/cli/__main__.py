"""``python -m rcb_env.cli``: the command `rcb` without its script."""

from __future__ import annotations

from rcb_env.cli.main import main

main()
