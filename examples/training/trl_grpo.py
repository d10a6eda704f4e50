"""GRPO with TRL on real challenges: a tiny model, made here, learns which answer passes.

    pip install 'rcb-env[trl,examples]'
    python examples/training/trl_grpo.py

The model is two layers wide enough to remember a few answers. It is first taught to call the tools,
with a right and some wrong answers for each challenge, all equally often; from then on only the
environment's verdicts tell them apart. So the curve starts at about one in three and rises. With a
model from a hub nothing changes but its name, and there is nothing to be taught first.
"""

from __future__ import annotations

import argparse
import inspect
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candidates import candidates
from curves import draw
from needs import require

from rcb_env.adapters.trl import environment_factory, rows

if TYPE_CHECKING:
    import transformers

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

CHALLENGES = (
    "DyT/gradient-of-alpha",
    "minp/threshold-scaled-by-the-top-probability",
    "schedule_free/recover-the-average-x-from-y-and-z",
)
# The last one stands where the model goes on: no other token may reach across.
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "assistant\n"]


def conversations(wrong: int) -> list[list[dict[str, Any]]]:
    """What the model is taught: write one of the answers, submit, stop."""
    made = []
    env = environment_factory()()
    answers = candidates(CHALLENGES, wrong)
    for row in rows(CHALLENGES):
        for code in answers[row["challenge"]]:
            assignment = env.reset(challenge=row["challenge"])
            calls = [("write_region", {"code": code}), ("submit", {})]
            told = [(name, getattr(env, name)(**arguments)) for name, arguments in calls]
            made.append(
                [
                    row["prompt"][0],
                    {"role": "user", "content": assignment},
                    {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [
                            {"type": "function", "function": {"name": n, "arguments": a}}
                            for n, a in calls
                        ],
                    },
                    *({"role": "tool", "name": n, "content": text} for n, text in told),
                    {"role": "assistant", "content": "Done."},
                ]
            )
    return made


def methods() -> list[Any]:
    """The tools as the trainer finds them."""
    env = environment_factory()()
    return [
        getattr(env, name)
        for name, _ in inspect.getmembers(type(env), predicate=inspect.isfunction)
        if name not in ("reset", "get_reward") and not name.startswith("_")
    ]


def tokenizer_of(texts: list[str]) -> transformers.PreTrainedTokenizerFast:
    """A tokenizer to which these texts are short."""
    import tokenizers
    import transformers
    from trl.chat_template_utils import qwen2_5_chat_template

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=SPECIAL,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator(texts, trainer)
    found = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="right",
    )
    found.chat_template = qwen2_5_chat_template
    return found


def taught(steps: int, wrong: int) -> tuple[Any, Any]:
    """A model that calls the tools, and knows no better than chance with which code."""
    import tokenizers
    import torch
    import transformers
    from trl.chat_template_utils import qwen2_5_chat_template

    talks = conversations(wrong)
    bare = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE())
    )
    bare.chat_template = qwen2_5_chat_template
    tools = methods()

    def written(talk: list[dict[str, Any]], **more: Any) -> str:
        return str(bare.apply_chat_template(talk, tools=tools, tokenize=False, **more))

    tokenizer = tokenizer_of([written(talk) for talk in talks])
    model = transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )
    texts = [written(talk) for talk in talks]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    labels = batch.input_ids.masked_fill(batch.attention_mask == 0, -100)
    for row, talk in enumerate(talks):
        labels[
            row, : len(tokenizer(written(talk[:2], add_generation_prompt=True)).input_ids)
        ] = -100
    print(f"{len(talks)} conversations of up to {labels.shape[1]} tokens", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(1, steps + 1):
        loss = model(**batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"taught {step} steps, loss {loss.item():.3f}", flush=True)
    return model, tokenizer


def main() -> None:
    """Teach, train, draw."""
    parser = argparse.ArgumentParser(description="GRPO with TRL on real challenges.")
    parser.add_argument("--teach", type=int, default=200, help="supervised steps before")
    parser.add_argument("--steps", type=int, default=30, help="steps of GRPO")
    parser.add_argument("--wrong", type=int, default=2, help="wrong answers for each challenge")
    parser.add_argument("--generations", type=int, default=8, help="rollouts in a group")
    parser.add_argument("--out", type=Path, default=Path("runs/trl-grpo.svg"))
    chosen = parser.parse_args()
    require("trl,examples", "matplotlib", "datasets", "torch", "transformers", "trl")
    import datasets
    import torch
    import transformers
    import trl

    torch.set_num_threads(1)  # the model is too small to share out
    transformers.set_seed(0)
    model, tokenizer = taught(chosen.teach, chosen.wrong)
    tokenizer.padding_side = "left"  # as generation wants it
    with tempfile.TemporaryDirectory() as folder:
        trainer = trl.GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            environment_factory=environment_factory(),
            train_dataset=datasets.Dataset.from_list(rows(CHALLENGES) * 100),
            args=trl.GRPOConfig(
                output_dir=folder,
                max_steps=chosen.steps,
                num_generations=chosen.generations,
                per_device_train_batch_size=chosen.generations * len(CHALLENGES),
                max_completion_length=100,
                max_tool_calling_iterations=2,
                learning_rate=3e-4,
                lr_scheduler_type="constant",
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                bf16=False,
                disable_tqdm=True,
                seed=0,
            ),
        )
        trainer.train()
    rewards = [float(entry["reward"]) for entry in trainer.state.log_history if "reward" in entry]
    third = max(1, len(rewards) // 3)
    print(
        f"pass rate: {sum(rewards[:third]) / third:.2f} in the first third,"
        f" {sum(rewards[-third:]) / third:.2f} in the last"
    )
    draw(rewards, chosen.out, title="GRPO with TRL", chance=1 / (1 + chosen.wrong))
    print(f"the curve is in {chosen.out}")


if __name__ == "__main__":
    main()
