"""The docs are true: examples run alone; files, headings and commands exist; generated pages are up to date."""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path

import click
import pytest

from rolltrace.cli.main import COMMANDS
from tests.cli.parsing import all_commands, parse
from tests.docs.pages import PAGES, ROOT, blocks_of, name_of, prose_of, shell_lines_of


def test_python_that_needs_a_framework_is_python_at_least() -> None:
    """What is fenced as `python NAME` is run by the tests with that framework, if at all."""
    for page in PAGES:
        for block in blocks_of(page):
            if block.language.startswith("python "):
                compile(block.text, name_of(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_files_and_headings_a_page_names_exist(page: Path) -> None:
    text = prose_of(page)
    missing = []
    for target, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        file = (page.parent / target) if target else page
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            missing.append(f"{target}#{anchor}")
    named = re.findall(r"`((?:src|tests|docs|benchmarks|examples|tools)/[\w./-]+)`", text)
    assert missing + [path for path in named if not (ROOT / path).exists()] == []


def anchors_of(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ +(.+?)\s*$", prose_of(page), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_in_the_blocks_of_a_page_are_understood(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if page.name == "CHANGELOG.md":
        return
    wrong = []
    for line in shell_lines_of(page):
        for words in commands_in(line):
            try:
                parse(words)
            except click.exceptions.Exit:
                pass  # --help
            except click.UsageError as error:
                wrong.append((line, error.format_message()))
    assert wrong == []


def commands_in(line: str) -> list[list[str]]:
    """The words of the rolltrace command that a line of a block has, without what a shell would do with it."""
    match = re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:ssh .* )?rolltrace (?=[a-z-])(.*)", line)
    if match is None or re.search(r"\b[A-Z]{4,}\b ?\[|\[STORE\]|FILE\.\.\.", line):
        return []
    command = re.split(r" {3,}(?=\w)|\s#\s", match[1])[0].replace(" ...", "")
    words = shlex.split(command, comments=True)
    for stop in ("|", ">", ">>", "&&", "or"):
        if stop in words:
            words = words[: words.index(stop)]
    return [words]


def test_commands_are_found_in_blocks() -> None:
    assert commands_in("$ rolltrace sql 'select 1' runs/store --csv > groups.csv") == [
        ["sql", "select 1", "runs/store", "--csv"]
    ]
    assert commands_in("rolltrace ls --step 1      # what there is") == [["ls", "--step", "1"]]
    assert commands_in("rolltrace sync --to otlp --dry-run        how many trajectories") == [
        ["sync", "--to", "otlp", "--dry-run"]
    ]
    assert commands_in("rolltrace: 8 trajectories hidden") == []
    assert commands_in("rolltrace COMMAND [STORE] [OPTIONS]") == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_and_options_in_the_text_of_a_page_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return
    helps = {name: options_of(name) for name in COMMANDS}
    wrong = []
    for quoted in re.findall(r"`rolltrace ([^`\n]+)`", prose_of(page)):
        name, *words = quoted.split()
        if not re.fullmatch(r"[a-z]+", name) or name in ("cannot", "lost"):
            continue  # rolltrace COMMAND, and messages that begin so
        if name not in helps:
            wrong.append(quoted)
        elif name != "run":
            wrong += [quoted for word in words if re.match("--[a-z]", word) and word.split("=")[0] not in helps[name]]
    assert wrong == []


@functools.cache
def options_of(name: str) -> set[str]:
    """The long options of a command and of what stands below it."""
    path = f"rolltrace {name}"
    return {
        word
        for context, command in all_commands()
        if f"{context.command_path} ".startswith(f"{path} ")
        for param in command.get_params(context)
        for word in (*param.opts, *param.secondary_opts)
    }


def test_every_make_command_that_the_docs_name_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {
        name
        for page in PAGES
        for name in re.findall(r"(?:`|^    )make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named
    assert [
        name for name in sorted(named) if not re.search(rf"^{name}:|^\S.* {name}(?: .*)?:", makefile, re.MULTILINE)
    ] == []


def test_every_name_that_a_framework_is_said_to_use_is_read() -> None:
    from rolltrace.record.tokens import COLUMN_OF, TOKEN_SCALARS
    from tools.gen_docs import USERS_OF_NAMES

    read = {*COLUMN_OF, *(name for names in TOKEN_SCALARS.values() for name in names)}
    assert {name for names in USERS_OF_NAMES.values() for name in names} <= read


def test_the_generated_pages_are_up_to_date() -> None:
    from tools.gen_api import API_PAGE, api_page
    from tools.gen_diagrams import DIAGRAMS, IMAGES
    from tools.gen_docs import (
        CONFIG_PAGE,
        FLAGS_PAGE,
        NAMES_PAGE,
        STORE_PAGE,
        config_page,
        flags_page,
        names_page,
        store_page,
    )

    assert API_PAGE.read_text() == api_page(), "run make gen"
    assert CONFIG_PAGE.read_text() == config_page(), "run make gen"
    assert STORE_PAGE.read_text() == store_page(), "run make gen"
    assert FLAGS_PAGE.read_text() == flags_page(), "run make gen"
    assert NAMES_PAGE.read_text() == names_page(), "run make gen"
    for name, svg in DIAGRAMS.items():
        assert (IMAGES / name).read_text() == svg, "run make gen"
