"""`rcb run --protocol official --extractor official`, through a model API and back from run.json."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rcb_env.dataset.papers import Dataset
from rcb_env.runs.store import RunStore

Server = Any  # its class lives in conftest.py, which cannot be imported from here


def _run(server: Server, dataset: Path, folder: Path, *options: str) -> dict[str, Any]:
    command = ["run", "--agent", "single-shot", "--model", "m", "--base-url", server.url]
    more = ["--dataset", str(dataset), "--sandbox", "bubblewrap", "--out", "run", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", *command, *more, *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_the_model_gets_the_prompt_and_its_reply_is_read_by_the_rule(
    model_server: Server, small_papers: Dataset, tmp_path: Path
) -> None:
    """A fence spelled otherwise is read by our rule and is an empty answer by the public one."""
    (challenge,) = small_papers.challenges
    model_server.plays(f"```py\n{challenge.reference}```")
    for name, options, passed in (
        ("own", (), 1),
        ("official", ("--protocol", "official", "--extractor", "official"), 0),
    ):
        (tmp_path / name).mkdir()
        run = _run(model_server, challenge.paper.root, tmp_path / name, *options)
        assert run["states"]["passed"] == passed
        assert run["states"]["invalid"] == 0
        record = RunStore.open(tmp_path / name / "run").record["config"]
        assert (record.get("protocol"), record.get("extractor")) == (
            ("official", "official") if options else (None, None)
        )
    prompts = [request["body"]["messages"][-1]["content"] for request in model_server.requests]
    assert "Complete this code:" not in prompts[0]
    assert "Complete this code:" in prompts[1]
    assert challenge.paper.text in prompts[1]
