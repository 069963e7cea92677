"""What is said of each release of verl, as far as that needs no verl: only its version is looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rolltrace.integrations.releases import numbers
from rolltrace.integrations.verl import framework
from rolltrace.integrations.verl.framework import RELEASES


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """As if that version of verl were installed."""
    monkeypatch.delenv(framework.MODULES, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(version: str) -> None:
        folder = tmp_path / f"verl-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: verl\nVersion: {version}\n")

    return install


@pytest.mark.parametrize("version", ["0.5.0", "0.6.1", "0.7.0"])
def test_a_release_that_does_not_fit_is_named_with_one_that_does(
    installed: Callable[[str], None], version: str
) -> None:
    installed(version)
    assert list(framework.examine()) == [
        framework.Verdict(
            False,
            f"verl {version} is too old for this rolltrace, which was tested with 0.7.1, 0.8.0, 0.9.0, 0.9.1",
            "pip install 'verl==0.9.1'",
        )
    ]


def test_a_release_that_does_not_fit_is_one_warning_and_not_one_for_each_module(
    installed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("0.6.1")
    monkeypatch.setattr(RELEASES, "problems", {"verl.experimental.agent_loop.agent_loop": "AttributeError: no such"})
    assert RELEASES.complaints() == [
        "version 0.6.1 is too old, so rewards and more are not traced; needed: 0.7.1 or newer"
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "rolltrace.integrations.verl.plugin"),
        ("my.models", "my.models,rolltrace.integrations.verl.plugin"),
    ],
)
def test_releases_that_find_no_plug_ins_are_told_which_variable_to_set(
    installed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    installed("0.8.0")
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", before)
    tested, missing = framework.examine()
    assert tested.ok
    assert not missing.ok
    assert missing.do.split("   #")[0] == f"export VERL_USE_EXTERNAL_MODULES={after}"


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("0.7.0", "0.7.1", True),
        ("0.7.1", "0.7.1", False),
        ("0.10.0", "0.9.1", False),
        ("0.3.0.post1", "0.7.1", True),
        ("0.8.0.dev0", "0.9.0", True),
        ("0.10.0.dev0", "0.9.0", False),
    ],
)
def test_releases_are_compared_by_their_numbers(version: str, than: str, older: bool) -> None:
    assert (numbers(version) < numbers(than)) is older
