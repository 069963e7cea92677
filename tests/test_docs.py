"""The docs are true: their examples run, the files they name exist, generated pages are up to date."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    program = "\n".join(blocks)
    environment = {"HOME": str(tmp_path), "ROLLTRACE_STRICT": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    linked = [page.parent / link for link in re.findall(r"\]\(([^)#:]+)\)", text)]
    named = [ROOT / path for path in re.findall(r"`((?:src|tests|docs|benchmarks|examples|tools)/[\w./-]+)`", text)]
    assert [str(path) for path in linked + named if not path.exists()] == []


def test_every_make_command_that_the_docs_name_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {
        name for page in PAGES for name in re.findall(r"(?:`|^    )make ([a-z-]+)", page.read_text(), re.MULTILINE)
    }
    assert named
    assert [name for name in sorted(named) if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_the_generated_pages_are_up_to_date() -> None:
    sys.path.insert(0, str(ROOT))
    from tools.gen_api import API_PAGE, api_page
    from tools.gen_docs import CONFIG_PAGE, FLAGS_PAGE, STORE_PAGE, config_page, flags_page, store_page

    assert API_PAGE.read_text() == api_page(), "run make gen"
    assert CONFIG_PAGE.read_text() == config_page(), "run make gen"
    assert STORE_PAGE.read_text() == store_page(), "run make gen"
    assert FLAGS_PAGE.read_text() == flags_page(), "run make gen"


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.name)
def test_an_example_runs_as_it_is(example: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    looking = re.search(r"rolltrace view (\S+)", done.stdout)
    assert looking is not None
    assert len(rolltrace.open(looking[1]).trajectories()) == 8
    assert "user: How far" in done.stdout
