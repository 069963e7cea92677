"""`rolltrace import`: what other tools wrote, into a store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import counted
from rolltrace.cli.options import add_json, add_store, store_after, store_of
from rolltrace.cli.output import json_line, plain, progress
from rolltrace.errors import ConfigError
from rolltrace.exchange import IMPORTS

if TYPE_CHECKING:
    from rolltrace.exchange import BadLine, ImportFormat

_MOST_LINES = 20
"""How many lines that cannot be read are named."""


AUTO = "auto"


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "import",
        help="read what other tools wrote",
        description="Read files of other tools into a store. Lines that cannot be read are reported and the rest is "
        "imported; importing a file again changes nothing. Exit code 3 if some lines could not be read, 1 if none "
        "could.",
    )
    formats = parser.add_subparsers(metavar="FORMAT", required=True, title="formats")
    helps = {
        AUTO: "any of these: says which one it takes it for",
        **{name: each.help for name, each in IMPORTS.items()},
    }
    for name, help_text in helps.items():
        one = formats.add_parser(name, help=help_text, description=f"Read {help_text}.")
        one.add_argument(
            "paths", metavar="FILE... [STORE]", nargs="+",
            help="files, or folders of them; without --store, of several the last is the store if it is a folder or a "
            "new name without an ending",
        )  # fmt: skip
        add_store(one, last=False)
        store_after(one, "paths", _ends_in_store)
        one.add_argument("--project", help="the project they belong to")
        one.add_argument("--experiment", help="the experiment they belong to")
        one.add_argument("--validate", action="store_true", help="they are validation rollouts")
        if name in (AUTO, "trl"):
            one.add_argument(
                "--rewards", metavar="NAME[=WEIGHT],...", type=_read_weights,
                help="the columns of TRL's completions that make up the reward; found from the advantages if not named",
            )  # fmt: skip
        add_json(one)
        one.set_defaults(run=run, format=name)


def run(options: argparse.Namespace) -> int:
    from rolltrace.exchange import ImportReport, ImportTarget, import_files

    files = [Path(path) for path in options.paths]
    store = store_of(options, may_be_new=True, to_write=True)
    rewards = getattr(options, "rewards", None)
    target = ImportTarget(store, options.project, options.experiment, options.validate, rewards)
    problems: list[str] = []

    def tell(bad: BadLine) -> None:
        problems.append(plain(f"rolltrace: {bad}"))
        if len(problems) <= _MOST_LINES:
            print(problems[-1], file=sys.stderr)

    done = ImportReport(0, 0, 0)
    with TemporaryDirectory(prefix="rolltrace-import-") as fetched:
        for chosen, its_files in _by_format(options.format, files).items():
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
    if len(problems) > _MOST_LINES:
        print(f"rolltrace: and {len(problems) - _MOST_LINES} more that could not be read", file=sys.stderr)
    if options.json:
        print(json_line({"store": str(store), **done._asdict()}))
    else:
        there = f", {done.already_there} were there already" if done.already_there else ""
        bad = f", {done.malformed} could not be read" if done.malformed else ""
        new = "new " if done.already_there else ""
        print(f"{counted(done.imported, f'{new}trajectory')} imported into {plain(str(store))}{there}{bad}")
    if not done.imported and not done.already_there:
        return 1
    return 3 if done.malformed else 0


def _read_weights(text: str) -> dict[str, float]:
    """The names of reward columns, each with its weight."""
    weights = {}
    for item in text.split(","):
        name, _, weight = item.partition("=")
        try:
            weights[name.strip()] = float(weight or 1)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{weight!r} is not a weight; write NAME or NAME=WEIGHT") from None
        if not name.strip():
            raise argparse.ArgumentTypeError(f"{text!r} has an empty name; write NAME or NAME=WEIGHT, with commas")
    return weights


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


def _ends_in_store(paths: Sequence[str]) -> bool:
    """Whether the store was named behind the files. A mistyped file must not become a store."""
    last = Path(paths[-1]).expanduser()
    return len(paths) > 1 and (last.is_dir() or (not last.exists() and not last.suffix))
