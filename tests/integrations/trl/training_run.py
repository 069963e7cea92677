"""Real training runs of TRL, one after the other: `python training_run.py FOLDER MODE...`, also under torchrun.

What TRL itself says of a run is kept beside the store: `FOLDER/MODE/log-N-KIND-STEP.parquet` is its table of
completions at each of its logs, `history.json` its metrics, and `losses-RANK.jsonl` what its loss was computed of.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

import rolltrace
from rolltrace.integrations.trl import RolltraceCallback, attach
from tests.integrations.trl import tiny

STEPS = 3
GROUP = 4
GROUP_EVAL = 2
TOKENIZER = tiny.make_tokenizer()


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: one number
        b: the other
    """
    return a + b


def divide(a: int, b: int) -> float:
    """Divide two numbers.

    Args:
        a: one number
        b: the other
    """
    return a / b


async def look_up(word: str) -> str:
    """Look up a word.

    Args:
        word: what to look up
    """
    return f"{word} is a word"


class Counter:
    """An environment: its methods are tools."""

    def reset(self, **row: Any) -> str:
        self.calls = 0
        return f" (you have a counter for {row['answer']})"

    def add(self, a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: one number
            b: the other
        """
        self.calls += 1
        return a + b


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def use_tools(row: int, text: str) -> str:
    """Rows 0 to 3 add, ask for what is not there, divide by zero and then talk too long, and say so much that no result
    fits; the rest look something up, twice."""
    results = text.count("<tool_response>")
    if results == 0:
        calls = [call("add", a=17, b=25), call("nope", a=1), call("divide", a=1, b=0), call("add", a=1, b=2)]
        if row % 8 < 4:
            return f"Hm{'m' * (330 if row % 8 == 3 else row)}. {calls[row % 8]}"
        return call("look_up", word="x") + call("add", a=row, b=1)
    if results == 2 and "x is a word" in text:
        return call("look_up", word="y")
    if "division by zero" in text:
        return "never " * 100
    return "The answer is 42." if row % 2 else "41"


def use_counter(row: int, text: str) -> str:
    return "done" if "<tool_response>" in text else call("add", a=row, b=1)


def correct(completions: Any, answer: Any, log_extra: Any = None, **columns: Any) -> list[float]:
    if log_extra is not None:
        log_extra("golden", list(answer))
        log_extra("chars", [float(len(str(each))) for each in completions])
    return [float(str(each) in str(said)) for said, each in zip(completions, answer)]


def short(completion_ids: Any, **columns: Any) -> list[float | None]:
    """Has nothing to say of the first row."""
    return [None if at == 0 else -len(ids) / 100 for at, ids in enumerate(completion_ids)]


def count(environments: Any, **columns: Any) -> list[float]:
    return [float(each.calls) for each in environments]


def own_rollouts(prompts: Any, trainer: Any) -> dict[str, Any]:
    """Two turns with something of an environment between them. The first row never ends."""
    prompt_ids = [
        TOKENIZER.apply_chat_template(each, add_generation_prompt=True, return_dict=False) for each in prompts
    ]
    first = [TOKENIZER.encode(f"turn {at}<|im_end|>") for at in range(len(prompts))]
    between, last = TOKENIZER.encode("[env]"), TOKENIZER.encode("42<|im_end|>")
    ids = [each + between + (last if at else last[:-1]) for at, each in enumerate(first)]
    masks = [[1] * len(each) + [0] * len(between) + [1] * (3 if at else 2) for at, each in enumerate(first)]
    logprobs = [[-0.5] * len(each) for each in ids]
    return {"prompt_ids": prompt_ids, "completion_ids": ids, "logprobs": logprobs, "env_mask": masks}


CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {"reward_weights": [1.0, 0.5]},
    "untraced": {"reward_weights": [1.0, 0.5]},
    "text": {},
    "tools": {"max_completion_length": 400},
    "environments": {"max_completion_length": 400},
    "replay": {"num_iterations": 2, "steps_per_generation": 4, "max_steps": 5},
    "rollouts": {"mask_truncated_completions": True},
    "split": {"per_device_train_batch_size": 1, "per_device_eval_batch_size": 1},
}
if int(version("trl").split(".")[1]) < 8:
    # It has as many environments as it trains with, and cannot evaluate with fewer.
    CONFIGS["environments"]["eval_strategy"] = "no"
SCRIPTS = {"tools": use_tools, "environments": use_counter}


def run(folder: Path, mode: str) -> None:
    out = folder / mode
    rows = [{"prompt": [{"role": "user", "content": f"17+{at}?"}], "answer": 17 + at} for at in range(8)]
    if mode == "text":
        rows = [{"prompt": f"17+{at}?", "answer": 17 + at} for at in range(8)]
    elif mode != "plain":
        rows = [{**row, "index": at} for at, row in enumerate(rows)]
    settings = {
        "output_dir": str(out), "use_cpu": True, "max_steps": STEPS, "per_device_train_batch_size": 4,
        "num_generations": GROUP, "gradient_accumulation_steps": 2, "max_completion_length": 12, "logging_steps": 1,
        "log_completions": True, "report_to": "none", "save_strategy": "no", "eval_strategy": "steps", "eval_steps": 2,
        "per_device_eval_batch_size": 4, "num_generations_eval": GROUP_EVAL, "beta": 0.0, "learning_rate": 1e-3,
        "disable_tqdm": True, **CONFIGS[mode],
    }  # fmt: skip
    more: dict[str, Any] = {}
    if mode == "tools":
        more["tools"] = [add, divide, look_up]
    elif mode == "environments":
        more["environment_factory"] = Counter
    elif mode == "rollouts":
        more["rollout_func"] = own_rollouts
    by_callback = mode in ("plain", "tools")
    if mode != "untraced":
        rolltrace.init("trl", mode, store=folder / "store", drain="off", quiet=True, token2text=mode == "plain")
    trainer = GRPOTrainer(
        model=tiny.make_model(TOKENIZER, SCRIPTS.get(mode)),
        reward_funcs=[correct, count] if mode == "environments" else [correct, short],
        args=GRPOConfig(**settings),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows[:2]),
        processing_class=TOKENIZER,
        callbacks=[RolltraceCallback()] if by_callback else [],
        **more,
    )
    listen(trainer, out)
    if mode != "untraced" and not by_callback:
        attach(trainer)
    trainer.train()
    rolltrace.shutdown()
    if trainer.accelerator.is_main_process:
        (out / "history.json").write_text(json.dumps(trainer.state.log_history))


def listen(trainer: Any, out: Path) -> None:
    """Keep TRL's own tables, of which it overwrites some, and what its loss is computed of."""
    theirs, loss, rank = trainer.log, trainer._compute_loss, trainer.accelerator.process_index
    written = 0

    def log(logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        nonlocal written
        kind, step = "train" if trainer.model.training else "eval", trainer.state.global_step
        theirs(logs, *args, **kwargs)
        table = out / "completions" / f"completions_{step:05d}.parquet"
        if trainer.accelerator.is_main_process and table.exists():
            written += 1
            shutil.copy(table, out / f"log-{written}-{kind}-{step}.parquet")

    def compute_loss(model: Any, inputs: Any) -> Any:
        if model.training:
            mask = inputs["completion_mask"].bool()
            lines = [
                {"step": trainer.state.global_step + 1, "ids": ids[keep].tolist()}
                for ids, keep in zip(inputs["completion_ids"], mask)
            ]
            with (out / f"losses-{rank}.jsonl").open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
        return loss(model, inputs)

    trainer.log, trainer._compute_loss = log, compute_loss


if __name__ == "__main__":
    for each in sys.argv[2:]:
        started = time.monotonic()
        run(Path(sys.argv[1]), each)
        sys.stderr.write(f"{each}: {time.monotonic() - started:.1f} s\n")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
