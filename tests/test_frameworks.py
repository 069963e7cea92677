"""A framework brings what the rest of rolltrace needs to know in its own folder."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rolltrace
from rolltrace import _frameworks, integrations
from rolltrace.cli import main
from rolltrace.errors import ConfigError
from rolltrace.settings import Settings

TOY = """
from rolltrace._frameworks import Verdict, ConfigKeys, Framework

def examine():
    yield Verdict(True, "toy 1.0")
    yield Verdict(False, "toy has no wheels", "pip install wheels")

FRAMEWORK = Framework(
    "toy", examine, config_keys=ConfigKeys(("toy", "trace"), ("job",)), warning=lambda: "toy is too old"
)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "frameworks" / "toy"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "framework.py").write_text(TOY)
    monkeypatch.setattr(integrations, "__path__", [*integrations.__path__, str(folder.parent)])
    _frameworks.frameworks.cache_clear()
    yield
    _frameworks.frameworks.cache_clear()


@pytest.mark.usefixtures("toy")
def test_doctor_has_an_option_for_every_framework(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "rolltrace.cli.doctor", raising=False)  # a new process has not loaded it yet
    assert main(["doctor", "--toy"]) == 1
    shown = capsys.readouterr().out
    assert "toy 1.0" in shown
    assert "pip install wheels" in shown


@pytest.mark.usefixtures("toy")
def test_a_config_is_read_where_any_framework_keeps_our_settings() -> None:
    config = {"toy": {"trace": {"max_items": 7}}, "job": {"project_name": "wheels"}}
    settings = Settings.gather({}, config)
    assert (settings.max_items, settings.project_name) == (7, "wheels")
    with pytest.raises(ConfigError, match=r"neither toy\.trace nor job nor actor_rollout_ref\.rollout\.trace"):
        Settings.gather({}, {"other": 1})


@pytest.mark.usefixtures("toy")
def test_init_warns_once_of_a_framework_that_would_not_be_traced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        rolltrace.init("p", "e", store=tmp_path / "store", drain="off")
    assert caplog.record_tuples == [("rolltrace", logging.WARNING, "toy is too old")]
