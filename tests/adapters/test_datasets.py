"""Exported runs in Hugging Face's `datasets`, which trainers read them with, and in the chat templates of models."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
import trl
from transformers.utils.chat_template_utils import render_jinja_template

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
    assert list(loaded) == rows
    assert rows
    talk = loaded[0]["chosen" if form == "preference" else "messages"]
    assert {message["role"] for message in talk} >= {"assistant", "tool"}


_TEMPLATES = {
    path.stem: path.read_text("utf-8")
    for path in sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja"))
}
_WITH_TOOLS = [name for name, text in _TEMPLATES.items() if "tool_calls" in text]
_NEED_TEXT = {"deepseekv3": "adds arguments to a text"}
_DROP_CALLS = ("deepseek_r1_distill", "deepseek_r1_distill_training")
"""These leave out calls beside a content, be it empty; most others fail or write "None" where there is none."""


@pytest.fixture(scope="module")
def rows(run: Path) -> dict[str, dict[str, Any]]:
    """A row with a repair in it, with both forms of arguments."""
    found = {}
    for form in ("objects", "text"):
        path = run.parent / f"{form}.jsonl"
        words = ("--format", "rl", "--arguments", form, "--out", str(path))
        rcb("export", str(run), *words, folder=run.parent)
        found[form] = next(row for row in read_rows(path) if len(row["messages"]) > 4)
    return found


@pytest.mark.parametrize("name", _WITH_TOOLS)
def test_chat_templates_of_models_with_tools_render_the_rows(
    rows: dict[str, dict[str, Any]], name: str
) -> None:
    """Arguments as text were encoded twice in silence by seven templates, and 26 raised."""
    form = "text" if name in _NEED_TEXT else "objects"
    row = copy.deepcopy(rows[form])
    messages = [*row["messages"], *_call({}, form), *_call({"": '{"code": "x = '}, form)]
    messages[2]["reasoning_content"] = "First I think."
    written = messages[2]["tool_calls"][0]["function"]["arguments"]
    code = (json.loads(written) if form == "text" else written)["code"]
    (text,), _ = render_jinja_template(
        [messages],
        tools=json.loads(row["tools"]),
        chat_template=_TEMPLATES[name],
        bos_token="<s>",
        eos_token="</s>",
    )
    assert (_bare(code) in _bare(text)) == (name not in _DROP_CALLS)
    assert json.dumps(json.dumps(code, ensure_ascii=False), ensure_ascii=False)[1:-1] not in text


def test_a_template_that_needs_text_cannot_take_objects() -> None:
    """So that the list of exceptions is kept when they are mended."""
    for name in _NEED_TEXT:
        with pytest.raises(TypeError):
            render_jinja_template([_call({}, "objects")], chat_template=_TEMPLATES[name])


def _bare(text: str) -> str:
    """Without line ends and escapes: templates write code as it is, as JSON, or as a literal of Python."""
    return re.sub(r"\\n|\\|\s", "", text)


def _call(arguments: dict[str, Any], form: str) -> list[dict[str, Any]]:
    function = {
        "name": "submit",
        "arguments": json.dumps(arguments) if form == "text" else arguments,
    }
    call = {"id": "call_9", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_9", "content": "done"},
    ]
