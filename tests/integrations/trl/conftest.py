"""Real TRL on a CPU, no network: each run happens once, in a process of its own."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

# Before anything of theirs is imported.
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", PYTHONWARNINGS="ignore")

import pytest

with warnings.catch_warnings():  # of theirs
    warnings.simplefilter("ignore")
    from .told import Ran

ROOT = Path(__file__).parents[3]
ALONE = ("plain", "untraced", "text", "tools", "environments", "replay", "rollouts")
_RUN = "tests.integrations.trl.training_run"


def train(folder: Path, modes: tuple[str, ...], *launcher: str) -> None:
    environment = {**os.environ, "ROLLTRACE_STRICT": "1", "HOME": str(folder)}
    command = [sys.executable, *launcher, "-m", _RUN, str(folder), *modes]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ran]:
    """The run of a mode in one process."""
    folder = tmp_path_factory.mktemp("alone")
    train(folder, ALONE)
    return functools.cache(lambda mode: Ran(folder, mode))


@pytest.fixture(scope="session")
def ran_on_two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ran]:
    """The same on two ranks; in the mode `split` each of them has half of every group."""
    folder = tmp_path_factory.mktemp("ranks")
    train(folder, ("split", "tools"), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    return functools.cache(lambda mode: Ran(folder, mode))
