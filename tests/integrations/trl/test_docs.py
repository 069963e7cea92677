"""The how-to page is true: its examples run, with a model and a dataset such as a reader would have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/howto/trl.md"
_BEFORE = """
import sys
from tests.integrations.trl import tiny
from datasets import Dataset
from trl import GRPOConfig

tokenizer = tiny.make_tokenizer()
model = tiny.make_model(tokenizer)
dataset = eval_dataset = Dataset.from_list([{"prompt": [{"role": "user", "content": "6*7?"}], "index": 7}] * 2)
args = GRPOConfig(
    output_dir=sys.argv[1], use_cpu=True, max_steps=1, per_device_train_batch_size=2, num_generations=2,
    max_completion_length=4, report_to="none", save_strategy="no", disable_tqdm=True,
)

def correct(completions, **columns): return [1.0 for _ in completions]
def short(completion_ids, **columns): return [-float(len(ids)) for ids in completion_ids]
"""
_AFTER = """
detach(trainer)
assert {(row["project"], row["experiment"], row["step"]) for row in store.trajectories()} == {("trl", "grpo-1", 1)}
"""


def run(program: str, tmp_path: Path, *command: str) -> str:
    environment = {**os.environ, "HOME": str(tmp_path), "ROLLTRACE_STRICT": "1", "ROLLTRACE_DRAIN": "off"}
    (tmp_path / "train.py").write_text(program)
    words = [sys.executable, *command, str(tmp_path / "train.py"), str(tmp_path / "grpo-1")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def blocks() -> list[str]:
    return re.findall(r"^```python trl\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    assert len(blocks()) == 3
    shown = run("\n".join([_BEFORE, *blocks(), _AFTER]), tmp_path)
    assert re.search(r"^7 [01] -?\d", shown, re.MULTILINE)


def test_a_script_that_knows_nothing_of_rolltrace_is_traced_by_rolltrace_run(tmp_path: Path) -> None:
    script = blocks()[0].replace("from rolltrace.integrations.trl import RolltraceCallback\n", "")
    script = script.replace("    callbacks=[RolltraceCallback()],\n", "")
    assert "olltrace" not in script
    run(_BEFORE + script, tmp_path, "-m", "rolltrace", "run")
    listed = [sys.executable, "-m", "rolltrace", "ls", "--json", str(tmp_path / ".rolltrace")]
    environment = {**os.environ, "HOME": str(tmp_path)}
    shown = subprocess.run(listed, env=environment, capture_output=True, text=True, timeout=100, check=True).stdout
    assert shown.count('"fate"') == 2
    assert shown.count("trained") >= 2


def test_the_doctor_says_that_it_fits() -> None:
    command = [sys.executable, "-m", "rolltrace", "doctor", "--trl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GRPOTrainer can be traced" in done.stdout
