"""tools/release_check.py: what it refuses. (`make release-check` builds and installs.)"""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from tools.release_check import IN_SDIST, IN_WHEEL, ROOT, check_changelog, check_contents, version_of

VERSION = version_of((ROOT / "pyproject.toml").read_text())


def archives(folder: Path, in_wheel: list[str]) -> tuple[Path, Path]:
    wheel, sdist = folder / f"rolltrace-{VERSION}-py3-none-any.whl", folder / f"rolltrace-{VERSION}.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in in_wheel:
            archive.writestr(name, "")
    with tarfile.open(sdist, "w:gz") as packed:
        for name in IN_SDIST:
            packed.addfile(tarfile.TarInfo(f"rolltrace-{VERSION}/{name}"))
    return wheel, sdist


def test_a_wheel_without_the_viewer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="the scripts of the viewer"):
        check_contents(*archives(tmp_path, list(IN_WHEEL)), VERSION)


def test_a_wheel_with_foreign_files_is_refused(tmp_path: Path) -> None:
    names = [*IN_WHEEL, "rolltrace/view/static/assets/index.js", "rolltrace/__pycache__/x.pyc"]
    with pytest.raises(SystemExit, match=r"does not belong there: .*__pycache__"):
        check_contents(*archives(tmp_path, names), VERSION)


def test_a_wheel_with_everything_passes(tmp_path: Path) -> None:
    check_contents(*archives(tmp_path, [*IN_WHEEL, "rolltrace/view/static/assets/index.js"]), VERSION)


def test_the_changelog_has_a_section_for_the_version() -> None:
    check_changelog((ROOT / "CHANGELOG.md").read_text(), VERSION)
    with pytest.raises(SystemExit, match="no section '## 9"):
        check_changelog("# Changelog\n\n## Unreleased\n", "9.9.9")
