"""`init`, `flush`, `shutdown`, `stats`: what is on, and what a second `init` does."""

import inspect
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

import rolltrace
from rolltrace import _entry, rollout_trace_attr, rollout_trace_op
from rolltrace.capture import scope
from rolltrace.errors import BackendError, ConfigError, StoreError
from rolltrace.settings import Settings, spread_limits


@pytest.fixture
def on(tmp_path: Path) -> Path:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    return tmp_path


def test_init_records_into_the_store_where_nothing_else_is_said(tmp_path: Path) -> None:
    rolltrace.init("p", "e", store=tmp_path / "s")
    rollout_trace_op(lambda: 1)()
    assert rolltrace.stats().records == 2
    assert list((tmp_path / "s").rglob("*.seg"))


@pytest.mark.parametrize("backend", [None, "off"])
def test_init_with_no_backend_stays_off_whatever_the_environment_says(
    tmp_path: Path, backend: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLTRACE_BACKEND", "rolltrace")
    rolltrace.init("p", "e", backend, store=tmp_path / "s")
    rollout_trace_op(lambda: 1)()
    assert (scope.recorder, rolltrace.stats().records) == (None, 0)
    assert not (tmp_path / "s").exists()


def test_the_environment_turns_init_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_BACKEND", "off")
    rolltrace.init("p", "e", store=tmp_path / "s")
    assert scope.recorder is None


def test_a_config_that_sets_no_backend_stays_off(tmp_path: Path) -> None:
    rolltrace.init({"trainer": {"project_name": "p"}}, store=tmp_path / "s")
    assert scope.recorder is None


def test_every_setting_is_a_typed_keyword_of_init_or_one_of_its_limits() -> None:
    named = inspect.signature(rolltrace.init).parameters
    settings = set(named) - {"config", "limits", "unknown"}
    limits = {each.name: each.default for each in fields(Settings) if each.name not in settings}
    assert settings <= {each.name for each in fields(Settings)}
    assert spread_limits({"limits": limits}) == {"config": None, **limits}
    assert not [name for name in settings if named[name].annotation == "Any" and name != "tokenizer"]


def test_init_says_once_where_it_records(tmp_path: Path) -> None:
    store = tmp_path / "a store"
    code = "import rolltrace" + f"; rolltrace.init('p', 'e', store={str(store)!r}, drain='off')" * 2
    (line,) = run_python(code).stderr.splitlines()
    assert line.startswith(f"rolltrace: recording p / e in {store} (run 2")
    assert line.endswith(f"look with: rolltrace ls '{store}'")
    assert run_python(code, ROLLTRACE_QUIET="1").stderr == ""
    assert run_python(code, RANK="1", WORLD_SIZE="2").stderr == ""


def test_children_do_not_say_it_again(tmp_path: Path) -> None:
    init = f"import rolltrace; rolltrace.init('p', 'e', store={str(tmp_path)!r}, drain='off')"
    made = run_python(f"{init}\nimport subprocess, sys\nsubprocess.run([sys.executable, '-c', {init!r}], check=True)")
    assert made.stderr.count("recording p / e") == 1


def test_a_program_that_records_nothing_does_not_say_that_it_does(tmp_path: Path) -> None:
    settings = {"ROLLTRACE_BACKEND": "rolltrace", "ROLLTRACE_STORE": str(tmp_path), "ROLLTRACE_DRAIN": "off"}
    assert run_python("import rolltrace", **settings).stderr == ""
    assert "rolltrace: recording default / default" in run_python(TRACED_PROGRAM, **settings).stderr


def test_init_turns_tracing_on_and_shutdown_off(on: Path) -> None:
    rollout_trace_op(lambda: 1)()
    made = rolltrace.stats()
    assert (made.records, made.losses, made.lost, made.cuts, made.internal_errors) == (2, {}, 0, 0, {})
    assert made.bytes > 0
    assert list(on.rglob("*.seg"))
    rolltrace.shutdown()
    assert scope.recorder is None


def test_the_same_settings_again_change_nothing(on: Path) -> None:
    before = scope.recorder
    rolltrace.init("p", "e", ["rolltrace"], store=str(on), drain="off")
    assert scope.recorder is before


def test_other_settings_raise_and_name_the_difference(on: Path) -> None:
    with pytest.raises(ConfigError) as told:
        rolltrace.init("other", "e", "rolltrace", store=on, drain="off", limits={"max_items": 3})
    assert str(told.value) == (
        "rolltrace is already set up, and project_name is 'p', not 'other'; max_items is None, not 3. "
        "Call rolltrace.shutdown() first"
    )
    assert scope.recorder is not None


def test_after_shutdown_init_can_choose_anew(on: Path, tmp_path: Path) -> None:
    rolltrace.shutdown()
    rolltrace.init("other", "e", "rolltrace", store=tmp_path / "other", drain="off")
    assert scope.recorder is not None
    assert scope.recorder.settings.project_name == "other"


@pytest.mark.parametrize("wrap", [dict, OmegaConf.create], ids=["dict", "OmegaConf"])
@pytest.mark.parametrize("way", ["first argument", "config="])
def test_init_takes_a_whole_trainer_config(tmp_path: Path, wrap: Any, way: str) -> None:
    trace = {"backend": "rolltrace", "store": str(tmp_path), "drain": "off"}
    config = wrap({"trainer": {"project_name": "p"}, "actor_rollout_ref": {"rollout": {"trace": trace}}})
    rolltrace.init(config) if way == "first argument" else rolltrace.init(config=config)
    assert scope.recorder is not None
    assert scope.recorder.settings.project_name == "p"


def test_a_config_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="pass the config only once"):
        rolltrace.init({"trainer": {}}, config={"trainer": {}})


def test_an_unknown_setting_is_told_with_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"no setting 'tokeniser'; did you mean 'tokenizer'\? there are: .*token2text"
    ):
        rolltrace.init("p", tokeniser="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"no setting 'max_byte'; did you mean 'max_bytes'"):
        rolltrace.RolloutTraceConfig.init("p", max_byte=3)


def test_an_unknown_backend_lists_those_installed(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"no backend 'rolltrac'; installed: rolltrace.*did you mean 'rolltrace'"):
        rolltrace.init("p", "e", "rolltrac", store=tmp_path)
    assert scope.recorder is None


def test_a_store_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write to the store .*choose another folder"):
        rolltrace.init("p", "e", "rolltrace", store=tmp_path / "file")
    assert scope.recorder is None


def test_a_strange_variable_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ROLLTRACE_BACKND", "rolltrace")
    for _ in range(2):
        rolltrace.init("p")
    assert [each.getMessage() for each in caplog.records] == [
        "unknown environment variable ROLLTRACE_BACKND; did you mean ROLLTRACE_BACKEND?"
    ]


def test_flush_while_on_and_off(on: Path) -> None:
    rollout_trace_op(lambda: 1)()
    assert rolltrace.flush()
    assert rolltrace.flush(timeout=5)
    rolltrace.shutdown()
    assert rolltrace.flush()


def test_losses_are_in_the_store_after_flush_even_if_nothing_else_was_recorded(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, max_samples_per_step_per_worker=0, drain="off")
    with rolltrace.rollout_trace_attr(step=3, sample_index=0):
        pass
    assert rolltrace.flush()
    assert [(row["step"], row["count"]) for row in rolltrace.open(tmp_path).losses()] == [(3, 1)]


def test_losses_by_sampling_are_in_the_stats(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, max_samples_per_step_per_worker=0, drain="off")
    for step in (1, 1, None):
        with rollout_trace_attr(sample_index=1, step=step):
            pass
    assert rolltrace.stats().losses == {"sample_limit": {"1": 2, "": 1}}
    assert rolltrace.stats().lost == 3


def test_shutdown_reports_losses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off", limits={"max_unsent_bytes": 0})
    with rollout_trace_attr(sample_index=1, step=1):
        pass
    rolltrace.shutdown()
    assert "lost records (reason, step, how many): {'journal_full': {'1': 2}}" in caplog.text


def test_shutdown_does_not_complain_of_sampling_that_was_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, max_samples_per_step_per_worker=0, drain="off")
    with rollout_trace_attr(sample_index=1, step=1):
        pass
    rolltrace.shutdown()
    assert caplog.records == []


def test_shutdown_twice_is_fine(on: Path) -> None:
    rolltrace.shutdown()
    rolltrace.shutdown()


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.lstrip("_").startswith("ROLLTRACE_")}
    return subprocess.run(
        [sys.executable, "-c", code], env={**clean, **environment}, capture_output=True, text=True, check=True
    )


TRACED_PROGRAM = """
import rolltrace
rolltrace.rollout_trace_op(lambda: 1)()
print(rolltrace.stats().records)
"""


def test_the_environment_alone_turns_tracing_on(tmp_path: Path) -> None:
    made = run_python(
        TRACED_PROGRAM, ROLLTRACE_BACKEND="rolltrace", ROLLTRACE_STORE=str(tmp_path), ROLLTRACE_DRAIN="off"
    )
    assert made.stdout.split() == ["2"]
    assert list(tmp_path.rglob("*.seg"))


def test_an_explicit_init_takes_the_place_of_the_environments(tmp_path: Path) -> None:
    made = run_python(
        f"import rolltrace; rolltrace.init('mine', store={str(tmp_path / 'mine')!r});"
        "print(rolltrace.RolloutTraceConfig.get_instance().project_name)",
        ROLLTRACE_BACKEND="rolltrace",
        ROLLTRACE_STORE=str(tmp_path / "theirs"),
        ROLLTRACE_DRAIN="off",
    )
    assert made.stdout.split() == ["mine"]


def test_a_wrong_environment_does_not_break_the_import(tmp_path: Path) -> None:
    made = run_python(TRACED_PROGRAM, ROLLTRACE_BACKEND="rolltrace", ROLLTRACE_DRAIN="never")
    assert made.stdout.split() == ["0"]
    assert "tracing stays off" in made.stderr
    assert "ROLLTRACE_DRAIN must be one of" in made.stderr


def test_a_misspelt_variable_is_warned_of_at_import() -> None:
    made = run_python("import rolltrace", ROLLTRACE_BACKEN="rolltrace")
    assert "did you mean ROLLTRACE_BACKEND?" in made.stderr


def test_a_failing_init_leaves_the_environments_tracing_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BACKEND": "rolltrace", "STORE": str(tmp_path), "DRAIN": "off"}.items():
        monkeypatch.setenv(f"ROLLTRACE_{name}", value)
    _entry.init_from_environment()
    with pytest.raises(BackendError):
        rolltrace.init("p", backend="nope")
    assert scope.recorder is not None
