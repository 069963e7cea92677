"""Environments of third parties' packages: kept as long as they are what is asked for, made whole or made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import environments

PYPROJECT = """
[project]
name = "rolltrace"
dependencies = [
    "duckdb>=1.2",
]
[project.entry-points."rolltrace.backends"]
weave = "rolltrace.backends.weave:WeaveBackend"
[dependency-groups]
test = [
    "pytest>=8",
]
dev = [
    "ruff>=0.8",
]
[tool.ruff]
line-length = 120
"""
TESTS = environments.Environment(("six==1.17.0",))
FOLDER = environments.Environment(alone=("six==1.17.0",), kind="folder")


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / ".venvs").mkdir()
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("before", "after", "another"),
    [
        ("duckdb>=1.2", "duckdb>=1.3", True),
        ("pytest>=8", "pytest>=9", True),
        ("ruff>=0.8", "ruff>=0.9", False),
        ("line-length = 120", "line-length = 100", False),
    ],
)
def test_another_dependency_is_another_environment(checkout: Path, before: str, after: str, another: bool) -> None:
    first, of_a_folder = environments.digest(TESTS), environments.digest(FOLDER)
    (checkout / "pyproject.toml").write_text(PYPROJECT.replace(before, after))
    assert (environments.digest(TESTS) != first) == another
    assert environments.digest(FOLDER) == of_a_folder


def test_another_package_is_another_environment() -> None:
    assert len({environments.digest(each) for each in (TESTS, FOLDER, environments.Environment(("six",)))}) == 3


def test_one_that_was_interrupted_is_made_again_and_a_whole_one_is_kept(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def install(environment: environments.Environment, cached: Path) -> None:
        made.append(cached)
        cached.mkdir()
        (cached / "half").touch()
        if len(made) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(environments, "install", install)  # the network's part
    with pytest.raises(KeyboardInterrupt):
        environments.make("verl-0.8.0", checkout / "cache")
    assert not (checkout / ".venvs" / "verl-0.8.0").exists()
    for _ in range(2):
        environments.make("verl-0.8.0", checkout / "cache")
    assert len(made) == 2
    assert (checkout / ".venvs" / "verl-0.8.0").resolve() == made[0]
