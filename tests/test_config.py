"""`RolloutTraceConfig`: what verl users call."""

from pathlib import Path

import pytest

import rolltrace
from rolltrace import RolloutTraceConfig
from rolltrace.capture import Recorder
from rolltrace.errors import ConfigError


def test_before_init_everything_is_off() -> None:
    config = RolloutTraceConfig.get_instance()
    assert (config.backend, config.token2text, config.max_samples_per_step_per_worker) == (None, False, None)
    assert RolloutTraceConfig.get_backend() is None
    assert RolloutTraceConfig.get_client() is None
    assert RolloutTraceConfig.enable_token2text() is False


def test_init_takes_verls_order_of_arguments(tmp_path: Path) -> None:
    RolloutTraceConfig.init("project", "experiment", "rolltrace", True, 4, store=tmp_path, drain="off")
    config = RolloutTraceConfig.get_instance()
    assert (config.project_name, config.experiment_name) == ("project", "experiment")
    assert (config.token2text, config.max_samples_per_step_per_worker) == (True, 4)
    assert RolloutTraceConfig.get_backend() == "rolltrace"
    assert RolloutTraceConfig.enable_token2text() is True
    assert isinstance(RolloutTraceConfig.get_client(), Recorder)


def test_it_is_the_same_state_as_that_of_init(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    assert RolloutTraceConfig.get_instance().project_name == "p"
    with pytest.raises(ConfigError, match="already set up"):
        RolloutTraceConfig.init("other", "e", "rolltrace", store=tmp_path, drain="off")


def test_init_with_verls_none_for_no_backend_stays_off() -> None:
    RolloutTraceConfig.init("p", "e", None, False, None)
    assert RolloutTraceConfig.get_backend() is None
    assert RolloutTraceConfig.get_instance().project_name == "p"


def test_reset_turns_off_and_forgets(tmp_path: Path) -> None:
    RolloutTraceConfig.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    RolloutTraceConfig.reset()
    assert RolloutTraceConfig.get_client() is None
    assert RolloutTraceConfig.get_instance().project_name == "default"
