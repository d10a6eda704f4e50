"""Exported runs in Hugging Face's `datasets`, which trainers read them with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest

from rcb_env.report.rows import read_rows
from rcb_env.report.training import FORMS


def rcb(*words: str, folder: Path) -> None:
    command = [sys.executable, "-m", "rcb_env.cli", *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes that are solved and episodes that are not, with repairs in between."""
    folder = tmp_path_factory.mktemp("run")
    words = ["--agent", "repair:rounds=1", "--model", "simulated:skill=0.4", "--samples", "4"]
    rcb("run", *words, "--challenges", "DyT/forward", "--out", "run", folder=folder)
    return folder / "run"


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("form", FORMS)
def test_datasets_loads_both_kinds_of_file_in_every_form(
    run: Path, tmp_path: Path, form: str, kind: str
) -> None:
    path = tmp_path / f"rows.{kind}"
    rcb("export", str(run), "--format", form, "--out", str(path), folder=tmp_path)
    builder = "json" if kind == "jsonl" else kind
    loaded = datasets.load_dataset(
        builder, data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")
    )
    rows = list(read_rows(path))
    assert [without_nulls(row) for row in loaded] == [without_nulls(row) for row in rows]
    assert rows
    talk = loaded[0]["chosen" if form == "preference" else "messages"]
    assert {message["role"] for message in talk} >= {"assistant", "tool"}


def without_nulls(value: Any) -> Any:
    """A table has every key in every row; what is not there is null."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value
