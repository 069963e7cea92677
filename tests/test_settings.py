"""Where settings come from, which one wins, and what is said of a wrong one."""

import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rolltrace.errors import ConfigError
from rolltrace.settings import MIB, Settings, spread_limits, unknown_variables, variable_of


def hydra(**trace: Any) -> dict[str, Any]:
    return {
        "trainer": {"project_name": "from-config", "experiment_name": "run"},
        "actor_rollout_ref": {"rollout": {"trace": trace}},
    }


def test_with_nothing_given_tracing_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DRAIN", "RUN", "QUIET"):
        monkeypatch.delenv(f"ROLLTRACE_{name}")
    assert Settings.gather({}) == Settings()
    assert Settings().backend is None


def test_an_argument_wins_over_config_environment_and_default(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    arguments: dict[str, Any] = {}
    config: Any = None
    for change in ("default", "environment", "config", "argument"):
        if change == "environment":
            monkeypatch.setenv("ROLLTRACE_MAX_STREAM_ITEMS", "1")
        if change == "config":
            config = hydra(max_stream_items=2)
        if change == "argument":
            arguments = {"max_stream_items": 3}
        found.append(Settings.gather(arguments, config).max_stream_items)
    assert found == [1000, 1, 2, 3]


@pytest.mark.parametrize("wrap", [dict, OmegaConf.create], ids=["dict", "OmegaConf"])
def test_a_trainers_config_is_read(wrap: Any) -> None:
    found = Settings.gather({}, wrap(hydra(backend="rolltrace", token2text=True, max_samples_per_step_per_worker=5)))
    assert (found.project_name, found.experiment_name, found.backend) == (
        "from-config",
        "run",
        ("rolltrace",),
    )
    assert (found.token2text, found.max_samples_per_step_per_worker) == (True, 5)


def test_names_beside_the_trace_keys_win_over_the_trainers() -> None:
    assert Settings.gather({}, hydra(project_name="other")).project_name == "other"


def test_a_strict_hydra_config_without_our_keys_is_fine() -> None:
    config = OmegaConf.create(hydra(backend=None))
    OmegaConf.set_struct(config, True)
    assert Settings.gather({}, config).backend is None


def test_interpolations_and_lists_of_a_hydra_config_are_resolved() -> None:
    config = OmegaConf.create({**hydra(backend=["rolltrace", "mlflow"], store="${where}/s"), "where": "/data"})
    found = Settings.gather({}, config)
    assert (found.backend, found.store) == (("rolltrace", "mlflow"), Path("/data/s"))


@pytest.mark.parametrize("config", [{}, {"a": 1}, 3, "text", {"actor_rollout_ref": 1}])
def test_a_config_without_our_keys_is_refused(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"neither actor_rollout_ref\.rollout\.trace nor trainer"):
        Settings.gather({}, config)


def test_a_trainer_alone_gives_the_names() -> None:
    assert Settings.gather({}, {"trainer": {"project_name": "p"}}).project_name == "p"


@pytest.mark.parametrize(
    ("variable", "text", "setting", "value"),
    [
        ("ROLLTRACE_PROJECT", "p", "project_name", "p"),
        ("ROLLTRACE_EXPERIMENT", "e", "experiment_name", "e"),
        ("ROLLTRACE_BACKEND", "rolltrace, mlflow", "backend", ("rolltrace", "mlflow")),
        ("ROLLTRACE_STORE", "/data/traces", "store", Path("/data/traces")),
        ("ROLLTRACE_JOURNAL", "/nvme/journals", "journal", Path("/nvme/journals")),
        ("ROLLTRACE_TOKEN2TEXT", "Yes", "token2text", True),
        ("ROLLTRACE_TOKEN2TEXT", "off", "token2text", False),
        ("ROLLTRACE_MAX_SAMPLES_PER_STEP_PER_WORKER", "0", "max_samples_per_step_per_worker", 0),
        ("ROLLTRACE_MAX_BYTES", "2 MiB", "max_bytes", 2 * MIB),
        ("ROLLTRACE_MAX_BYTES", "1kb", "max_bytes", 1024),
        ("ROLLTRACE_MAX_UNSENT_BYTES", "3G", "max_unsent_bytes", 3 << 30),
        ("ROLLTRACE_DRAIN", "off", "drain", "off"),
        ("ROLLTRACE_MAX_DEPTH", "", "max_depth", 128),
        ("ROLLTRACE_DURABLE", "1", "durable", True),
    ],
)
def test_each_environment_variable_sets_its_setting(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, setting: str, value: Any
) -> None:
    assert variable_of(setting) == variable
    monkeypatch.setenv(variable, text)
    assert getattr(Settings.gather({}), setting) == value


@pytest.mark.parametrize(
    ("setting", "value", "wanted"),
    [
        ("project_name", "", "a non-empty string"),
        ("project_name", 3, "a non-empty string"),
        ("backend", "", "a backend name or a list of names, such as 'rolltrace'"),
        ("backend", "a,,b", "a backend name or a list of names, such as 'rolltrace'"),
        ("backend", [], "a backend name or a list of names, such as 'rolltrace'"),
        ("backend", [["a"]], "a backend name or a list of names, such as 'rolltrace'"),
        ("backend", {"a": 1}, "a backend name or a list of names, such as 'rolltrace'"),
        ("backend", 3, "a backend name or a list of names, such as 'rolltrace'"),
        ("store", "", "a folder path"),
        ("store", 3, "a folder path"),
        ("token2text", "maybe", "true or false"),
        ("token2text", 2, "true or false"),
        ("max_samples_per_step_per_worker", -1, "a whole number, 0 or more"),
        ("max_samples_per_step_per_worker", 1.5, "a whole number, 0 or more"),
        ("max_samples_per_step_per_worker", True, "a whole number, 0 or more"),
        ("max_samples_per_step_per_worker", "many", "a whole number, 0 or more"),
        ("sample_seed", -1, "a whole number, 0 or more"),
        ("max_bytes", "1.5 MiB", "a size such as 8GiB, 64MiB or a number of bytes"),
        ("max_bytes", -5, "a size such as 8GiB, 64MiB or a number of bytes"),
        ("segment_bytes", 100, "at least 64 KiB"),
        ("drain", "proces", "one of 'process', 'thread', 'off'"),
        ("drain", ["process"], "one of 'process', 'thread', 'off'"),
    ],
)
def test_a_wrong_value_is_told_with_what_to_write(setting: str, value: Any, wanted: str) -> None:
    with pytest.raises(ConfigError) as told:
        Settings.gather({setting: value})
    assert str(told.value) == f"{setting} must be {wanted}, not {value!r}"


def test_a_wrong_value_is_told_with_where_it_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^drain \(in the config\) must be one of"):
        Settings.gather({}, hydra(drain="x"))
    monkeypatch.setenv("ROLLTRACE_DRAIN", "x")
    with pytest.raises(ConfigError, match=r"^ROLLTRACE_DRAIN must be one of"):
        Settings.gather({})


def test_a_store_is_an_absolute_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert Settings.gather({"store": "traces"}).store == tmp_path / "traces"
    assert Settings.gather({"store": Path("~/t")}).store == Path("/home/me/t")
    assert Settings.gather({"backend": "rolltrace"}).store == Path("/home/me/.rolltrace")


def test_an_account_without_a_home_is_told_to_name_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as Python does for an unknown uid
    assert Settings.gather({}).backend is None
    with pytest.raises(ConfigError, match="store must be a folder path without '~'"):
        Settings.gather({"backend": "rolltrace"})
    assert Settings.gather({"backend": "rolltrace", "store": "/s"}).store == Path("/s")


def test_a_backend_named_twice_is_taken_once() -> None:
    assert Settings.gather({"backend": ["a", "b", "a"]}).backend == ("a", "b")


def test_a_difference_names_both_values() -> None:
    one, other = Settings(drain="off"), Settings(drain="thread", max_items=3)
    assert one.difference(other) == {"drain": ("off", "thread"), "max_items": (None, 3)}


def test_settings_pickle() -> None:
    made = Settings.gather({"backend": "rolltrace", "store": "/s"})
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_strange_variable_is_found_with_the_nearest_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_BACKND", "rolltrace")
    monkeypatch.setenv("ROLLTRACE_XYZZYXYZZY", "1")
    assert unknown_variables() == {"ROLLTRACE_BACKND": ["ROLLTRACE_BACKEND"], "ROLLTRACE_XYZZYXYZZY": []}


def test_a_config_that_cannot_be_resolved_is_a_clear_error() -> None:
    from omegaconf import OmegaConf

    config = OmegaConf.create({"trainer": {"project_name": "${nowhere}"}})
    with pytest.raises(ConfigError, match=r"the config cannot be read: .*nowhere"):
        Settings.gather({}, config)


def test_a_tokenizer_is_an_object_a_file_or_a_folder_and_turns_text_on(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")

    class Tokenizer:
        def decode(self, ids: list[int]) -> str:
            return ""

    own = Tokenizer()
    for given, expected in ((own, own), (str(file), file), (tmp_path, file)):
        found = Settings.gather({"tokenizer": given})
        assert (found.tokenizer, found.token2text) == (expected, True)
    assert not Settings.gather({"tokenizer": file, "token2text": False}).token2text


def test_a_tokenizer_from_the_environment_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setenv("ROLLTRACE_TOKENIZER", str(tmp_path))
    assert Settings.gather({}).tokenizer == tmp_path / "tokenizer.json"


def test_what_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer: there is no file '/nowhere/x'$"):
        Settings.gather({"tokenizer": "/nowhere/x"})
    with pytest.raises(ConfigError, match=r"there is no file '.*/tokenizer\.json'; pass the tokenizer object itself"):
        Settings.gather({"tokenizer": tmp_path})
    with pytest.raises(ConfigError, match=r"must be a tokenizer, .*, not 'int'"):
        Settings.gather({"tokenizer": 3})


def test_limits_are_settings_as_arguments_are() -> None:
    assert spread_limits({"drain": "off", "limits": {"max_items": 3}}) == {
        "drain": "off",
        "config": None,
        "max_items": 3,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_items": 3}, "max_items is not an argument of init: limits={'max_items': ...} or ROLLTRACE_MAX_ITEMS"),
        ({"limits": {"drain": "off"}}, "drain is an argument of init, not one of its limits"),
        ({"limits": {"max_itms": 3}}, "did you mean 'max_items'?"),
        ({"limits": 3}, "limits must be a mapping"),
    ],
)
def test_a_setting_in_the_wrong_place_says_where_it_belongs(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        spread_limits(arguments)
