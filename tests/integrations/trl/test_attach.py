"""Attaching and detaching, in this process: one trainer is changed, and is again as it was."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():  # of theirs
    warnings.simplefilter("ignore")
    from . import tiny  # isort: skip
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

import rolltrace
from rolltrace.capture import scope
from rolltrace.errors import ConfigError
from rolltrace.integrations.trl import RolltraceCallback, attach, detach
from rolltrace.query import open_store

pytestmark = pytest.mark.filterwarnings("ignore")
TOKENIZER = tiny.make_tokenizer()


def length(completion_ids: Any, **columns: Any) -> list[float]:
    return [float(len(ids)) for ids in completion_ids]


def make(folder: Path, reward: Any = length, kinds: Any = (GRPOTrainer, GRPOConfig), callbacks: Any = ()) -> Any:
    trainer, config = kinds
    args = config(
        output_dir=str(folder / "out"), use_cpu=True, max_steps=1, per_device_train_batch_size=2, num_generations=2,
        max_completion_length=4, report_to="none", save_strategy="no", disable_tqdm=True, beta=0.0,
    )  # fmt: skip
    rows = [{"prompt": [{"role": "user", "content": f"{at}?"}]} for at in range(2)]
    return trainer(
        model=tiny.make_model(TOKENIZER), reward_funcs=reward, args=args, train_dataset=Dataset.from_list(rows),
        processing_class=TOKENIZER, callbacks=list(callbacks),
    )  # fmt: skip


@pytest.fixture
def tracing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ROLLTRACE_STRICT", "1")
    rolltrace.init("trl", "attached", store=tmp_path / "store", drain="off", quiet=True)
    yield tmp_path / "store"
    rolltrace.shutdown()


def test_detached_trainers_are_as_they_were(tmp_path: Path, tracing: Path) -> None:
    trainer = make(tmp_path)
    before, of_class = dict(vars(trainer)), dict(vars(GRPOTrainer))
    attach(trainer)
    changed = dict(vars(trainer))
    attach(trainer)
    assert vars(trainer) == changed
    assert dict(vars(GRPOTrainer)) == of_class
    detach(trainer)
    assert vars(trainer) == before
    trainer.train()
    assert len(open_store(tracing).trajectories()) == 0


def test_a_callback_that_is_added_later_attaches_too_and_can_be_detached(tmp_path: Path, tracing: Path) -> None:
    trainer = make(tmp_path)
    callback = RolltraceCallback()
    trainer.add_callback(callback)
    trainer.train()
    assert len(open_store(tracing).trajectories()) == 2
    callback.detach()
    assert "_generate" not in vars(trainer)
    assert callback not in trainer.callback_handler.callbacks


@pytest.fixture
def off() -> Iterator[None]:
    rolltrace.init("trl", "off", backend=None)
    yield
    rolltrace.shutdown()


def test_nothing_is_built_while_tracing_is_off(tmp_path: Path, off: None) -> None:
    trainer = make(tmp_path)
    attach(trainer)
    assert scope.recorder is None
    called: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "/rolltrace/" in frame.f_code.co_filename and "/tests/" not in frame.f_code.co_filename:
            called.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        trainer.train()
    finally:
        sys.setprofile(None)
    assert called == {"ours"}


def test_an_exception_of_a_reward_function_passes_through_and_ends_the_rollouts(tmp_path: Path, tracing: Path) -> None:
    def broken(**columns: Any) -> list[float]:
        raise KeyError("no such column")

    trainer = make(tmp_path, broken)
    attach(trainer)
    with pytest.raises(KeyError, match="no such column"):
        trainer.train()
    store = open_store(tracing)
    for row in store.trajectories():
        trajectory = store.trajectory(row["trajectory_id"])
        assert trajectory.status == "error"
        assert [(op.kind, op.status) for op in trajectory.ops] == [("llm", "ok"), ("reward", "error")]
    assert len(store.trajectories()) == 2


def test_a_trainer_of_rloo_is_recorded_too(tmp_path: Path, tracing: Path) -> None:
    trainer = make(tmp_path, kinds=(RLOOTrainer, RLOOConfig))
    attach(trainer)
    trainer.train()
    rows = open_store(tracing).trajectories()
    assert [(row["reward"], row["fate"]) for row in rows] == [(4.0, "trained")] * 2
    assert {row["rollout_n"] for row in rows} == {0, 1}


def test_what_is_no_trainer_is_refused_with_what_it_lacks() -> None:
    with pytest.raises(ConfigError, match=r"attach needs a GRPOTrainer .*, not a dict: it has no _generate_and_score"):
        attach({})


def test_without_any_setting_the_names_are_those_of_the_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLTRACE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("ROLLTRACE_DRAIN", "off")
    trainer = make(tmp_path, callbacks=[RolltraceCallback()])
    trainer.train()
    rolltrace.shutdown()
    rows = open_store(tmp_path / "store").trajectories()
    assert {(row["project"], row["experiment"]) for row in rows} == {("trl", "out")}
