"""`rolltrace import`: what other tools wrote, into a store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from rolltrace._amounts import counted
from rolltrace.cli.command import PATH, Command, Group, StoreWord, argument, option
from rolltrace.cli.options import JSON, STORE_OPTION, Options
from rolltrace.cli.output import plain, progress, warn
from rolltrace.errors import ConfigError
from rolltrace.exchange import IMPORTS

if TYPE_CHECKING:
    from rolltrace.exchange import BadLine, ImportFormat

_MAX_LINES = 20
"""How many lines that cannot be read are named."""
AUTO = "auto"


def _read_weights(context: click.Context, param: click.Parameter, text: str | None) -> dict[str, float]:
    """The names of reward columns, each with its weight."""
    weights: dict[str, float] = {}
    for item in text.split(",") if text is not None else ():
        name, _, weight = item.partition("=")
        try:
            weights[name.strip()] = float(weight or 1)
        except ValueError:
            raise click.BadParameter(f"{weight!r} is not a weight; write NAME or NAME=WEIGHT") from None
        if not name.strip():
            raise click.BadParameter(f"{text!r} has an empty name; write NAME or NAME=WEIGHT, with commas")
    return weights


def _find_store(paths: Sequence[str]) -> int | None:
    """The store may be named behind the files. A mistyped file must not become a store."""
    last = Path(paths[-1]).expanduser()
    return -1 if len(paths) > 1 and (last.is_dir() or (not last.exists() and not last.suffix)) else None


def _format(name: str, help: str) -> Command:
    rewards = option(
        "--rewards NAME[=WEIGHT],...",
        "the columns of TRL's completions that make up the reward; found from the advantages if not named",
        callback=_read_weights,
    )
    return Command(
        help,
        f"Read {help}.",
        [
            argument(
                "paths",
                "files, or folders of them; without --store, of several the last is the store if it is a folder or a "
                "new name without an ending", "FILE... [STORE]", nargs=-1, required=True, type=PATH,
            ),
            STORE_OPTION,
            StoreWord("paths", _find_store),
            option("--project PROJECT", "the project they belong to"),
            option("--experiment EXPERIMENT", "the experiment they belong to"),
            option("--validate", "they are validation rollouts"),
            *([rewards] if name in (AUTO, "trl") else []),
            JSON,
        ],
        _run,
    )  # fmt: skip


def _run(options: Options) -> int:
    from rolltrace.exchange import ImportReport, ImportTarget, import_files

    files = [Path(path) for path in options.paths]
    store = options.store_path(may_be_new=True, to_write=True)
    rewards = getattr(options, "rewards", None)
    target = ImportTarget(store, options.project, options.experiment, options.validate, rewards)
    problems: list[str] = []

    def tell(bad: BadLine) -> None:
        problems.append(plain(f"rolltrace: {bad}"))
        if len(problems) <= _MAX_LINES:
            print(problems[-1], file=sys.stderr)

    done = ImportReport(0, 0, 0)
    with TemporaryDirectory(prefix="rolltrace-import-") as fetched:
        for chosen, its_files in _by_format(options.command, files).items():
            if rewards and chosen is not IMPORTS["trl"]:
                raise ConfigError(
                    f"--rewards is for TRL's completions; import {', '.join(map(str, its_files))} without"
                )
            if chosen.is_remote:
                target.named()  # before anything is asked of a server
                its_files = [chosen.fetch(str(each), Path(fetched)) for each in its_files]
            report = import_files(
                chosen.reader, its_files, target, files_of=chosen.files, on_bad=tell, progress=progress("importing")
            )
            done = ImportReport(*(each + more for each, more in zip(done, report)))
    if len(problems) > _MAX_LINES:
        warn(f"and {len(problems) - _MAX_LINES} more that could not be read")
    there = f", {done.already_there} were there already" if done.already_there else ""
    bad = f", {done.malformed} could not be read" if done.malformed else ""
    imported = counted(done.imported, f"{'new ' if done.already_there else ''}trajectory")
    fields = {"store": str(store), **done._asdict()}
    options.report(fields, f"{imported} imported into {plain(str(store))}{there}{bad}")
    if not done.imported and not done.already_there:
        return 1
    return 3 if done.malformed else 0


def _by_format(name: str, files: list[Path]) -> dict[ImportFormat, list[Path]]:
    """The files of each format, in their order; of `auto`, as they look, which is said."""
    if name != AUTO:
        return {IMPORTS[name]: files}
    from rolltrace.exchange import guess

    formats: dict[ImportFormat, list[Path]] = {}
    for file in files:
        guessed = guess(file)
        print(plain(f"{file}: taken for {guessed.format} ({guessed.why})"), file=sys.stderr)
        formats.setdefault(IMPORTS[guessed.format], []).append(file)
    return formats


import_ = Group(
    "read what other tools wrote",
    "Read files of other tools into a store. Lines that cannot be read are reported and the rest is imported; "
    "importing a file again changes nothing. Exit code 3 if some lines could not be read, 1 if none could.",
    {
        "formats": {
            AUTO: _format(AUTO, "any of these: says which one it takes it for"),
            **{name: _format(name, each.help) for name, each in IMPORTS.items()},
        }
    },
)
