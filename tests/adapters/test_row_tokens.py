"""Exported rows in tokens, and TRL's own `SFTTrainer` on them: what is learnt is what the model is to write.

The tokenizer is made here and knows no language; the chat templates are those that TRL ships.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
import tokenizers
import transformers
import trl
from trl.chat_template_utils import add_response_schema, parse_response

from rcb_env.errors import UsageError
from rcb_env.play.agent import ModelSettings
from rcb_env.report.rows import read_rows
from rcb_env.report.tokens import IGNORED, RowTokenizer
from rcb_env.report.training import export
from rcb_env.runs import RunConfig, open_run, run_experiment

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
TRAINED = {  # what ends a turn in each
    "qwen2_5": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "llama3_1": "<|eot_id|>",
    "qwen3_5_think": "<|im_end|>",
}
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes that are solved and episodes that are not, with repairs in between."""
    folder = tmp_path_factory.mktemp("run")
    config = RunConfig(
        agent="repair:rounds=1",
        model=ModelSettings("simulated:skill=0.4"),
        challenges=("DyT/forward",),
        samples=4,
    )
    with open_run(config, folder / "run") as store:
        run_experiment(config, store)
    return folder / "run"


@pytest.fixture(scope="module")
def row(run: Path) -> dict[str, Any]:
    """One with a repair in it."""
    export([run], "rl", run.parent / "rl.jsonl")
    return max(read_rows(run.parent / "rl.jsonl"), key=lambda row: len(row["messages"]))


def tokenizer(name: str, folder: Path) -> Path:
    """Bytes and a model's special tokens, with its chat template."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet
    )
    made.train_from_iterator([], trainer)
    found = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<|begin_of_text|>",
        eos_token=TRAINED[name],
        pad_token="<|endoftext|>",
    )
    found.chat_template = (TEMPLATES / f"{name}.jinja").read_text("utf-8")
    found.save_pretrained(folder / name)
    return folder / name


def learnt(ids: list[int], labels: list[int]) -> list[list[int]]:
    """Each run of tokens that are to be learnt."""
    assert all(label in (IGNORED, id) for id, label in zip(ids, labels, strict=True))
    text = "".join(" " if label == IGNORED else "x" for label in labels)
    at, runs = 0, []
    for part in text.split(" "):
        if part:
            runs.append(ids[at : at + len(part)])
        at += len(part) + 1
    return runs


def written(made: Any, name: str, ids: list[int]) -> dict[str, Any]:
    """The call that the parser for a model's replies reads in what is to be learnt."""
    assert made.decode(ids).endswith(TRAINED[name])
    (call,) = parse_response(add_response_schema(made), ids, prefix=[])["tool_calls"]
    return bare(call["function"])


def bare(function: dict[str, Any]) -> dict[str, Any]:
    """Without the space around texts, which one of the parsers takes off."""
    arguments = {
        name: value.strip() if isinstance(value, str) else value
        for name, value in function["arguments"].items()
    }
    return {"name": function["name"], "arguments": arguments}


@pytest.mark.filterwarnings("ignore:.gradient_checkpointing. is deprecated:FutureWarning")  # TRL's
@pytest.mark.parametrize("name", TRAINED)
def test_a_trainer_learns_what_the_model_is_to_write(name: str, run: Path, tmp_path: Path) -> None:
    folder = tokenizer(name, tmp_path)
    made = transformers.AutoTokenizer.from_pretrained(folder)
    path = tmp_path / "sft.jsonl"
    export([run], "sft", path, tokenizer=RowTokenizer(str(folder)))
    rows = list(read_rows(path))
    assert rows
    for one in rows:
        runs = learnt(one["input_ids"], one["labels"])
        said = [message for message in one["messages"] if message["role"] == "assistant"]
        assert [written(made, name, ids) for ids in runs] == [
            bare(message["tool_calls"][0]["function"]) for message in said
        ]
    loaded = datasets.load_dataset(
        "json", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")
    )
    trainer = trained(made, loaded.select_columns(["input_ids", "labels"]), tmp_path)
    for batch in trainer.get_train_dataloader():
        for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True):
            kept = ids.ne(made.pad_token_id)
            assert (ids[kept].tolist(), labels[kept].tolist()) in [
                (one["input_ids"], one["labels"]) for one in rows
            ]
    if name != "llama3_1":  # TRL cannot say what a model of this template writes
        own = trained(
            made, loaded.select_columns(["messages", "tools"]), tmp_path, assistant_only_loss=True
        )
        for one, theirs in zip(rows, own.train_dataset, strict=True):
            assert one["input_ids"] == theirs["input_ids"]
            runs = learnt(theirs["input_ids"], theirs["labels"])
            # Its marks hold the line end behind a turn as well.
            assert learnt(one["input_ids"], one["labels"]) == [
                ids[: -1 if made.decode(ids[-1:]) == "\n" else None] for ids in runs
            ]


def trained(made: Any, rows: Any, folder: Path, **settings: Any) -> Any:
    """TRL's trainer after one step of a tiny model."""
    model = transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(
            vocab_size=len(made),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            eos_token_id=made.eos_token_id,
            pad_token_id=made.pad_token_id,
            bos_token_id=None,
        )
    )
    args = trl.SFTConfig(
        output_dir=str(folder / "out"),
        max_steps=1,
        per_device_train_batch_size=2,
        max_length=None,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        **settings,
    )
    trainer = trl.SFTTrainer(model=model, args=args, train_dataset=rows, processing_class=made)
    assert 0 < trainer.train().training_loss < 100
    return trainer


@pytest.mark.parametrize("name", ["qwen3", "llama3_1"])
def test_a_message_that_is_not_to_be_learnt_has_no_labels(
    name: str, row: dict[str, Any], tmp_path: Path
) -> None:
    """With marks, and without: a call that was cut off stands there with mask 0."""
    folder = tokenizer(name, tmp_path)
    first, *others = (at for at, mask in enumerate(row["mask"]) if mask)
    cut = copy.deepcopy(row)
    cut["mask"][first] = 0
    rows = RowTokenizer(str(folder))
    whole, less = (rows.tokens(one) for one in (row, cut))
    assert less["input_ids"] == whole["input_ids"]
    assert learnt(**_named(less)) == learnt(**_named(whole))[1:]
    assert len(others) == len(learnt(**_named(less))) > 0


def _named(tokens: dict[str, list[int]]) -> dict[str, list[int]]:
    return {"ids": tokens["input_ids"], "labels": tokens["labels"]}


def test_the_command_adds_tokens_to_both_kinds_of_file(run: Path, tmp_path: Path) -> None:
    folder = tokenizer("qwen2_5", tmp_path)
    command = [sys.executable, "-m", "rcb_env.cli", "export", str(run), "--format", "rl"]
    done = subprocess.run(
        [*command, "--tokenizer", str(folder), "--out", "rows.parquet"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    export([run], "rl", tmp_path / "rows.jsonl", tokenizer=RowTokenizer(str(folder)))
    rows = list(read_rows(tmp_path / "rows.parquet"))
    assert rows == list(read_rows(tmp_path / "rows.jsonl"))
    assert all(len(row["input_ids"]) == len(row["labels"]) for row in rows)


def test_a_template_that_words_earlier_messages_anew_is_refused(
    row: dict[str, Any], tmp_path: Path
) -> None:
    folder = tokenizer("qwen2_5", tmp_path)
    template = tmp_path / "last.jinja"
    template.write_text(
        "{% for m in messages %}{{ loop.length }}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    )
    with pytest.raises(UsageError, match="shows 0 messages as the model's"):
        RowTokenizer(str(folder), template).tokens(row)
    with pytest.raises(UsageError, match="cannot be loaded"):
        RowTokenizer(str(tmp_path / "none"))
