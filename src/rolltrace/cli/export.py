"""`rolltrace export`: trajectories of a store in the formats of other tools."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rolltrace._amounts import counted
from rolltrace.cli.options import (
    add_filters,
    add_json,
    add_pass,
    add_store,
    ends_in_no_id,
    filters_of,
    open_asked,
    pass_meanings,
    pass_of,
    pass_rules,
    store_after,
    tell_of_older_runs,
)
from rolltrace.cli.output import json_line, progress, working
from rolltrace.errors import ConfigError, NotFoundError, StoreError
from rolltrace.exchange import EXPORTS
from rolltrace.files import replacing

if TYPE_CHECKING:
    from rolltrace.exchange import Selection
    from rolltrace.query import Store


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "export",
        help="write trajectories for other tools",
        description="Export trajectories of a store in the formats of other tools.",
    )
    formats = parser.add_subparsers(metavar="FORMAT", required=True, title="formats")
    for name, form in EXPORTS.items():
        one = formats.add_parser(name, help=form.help, description=f"Write {form.help}.")
        add_store(one)
        where = "the folder to write, new or empty" if form.is_folder else "the file to write; - is standard output"
        one.add_argument("-o", "--output", metavar="PATH", required=form.is_folder, default="-", help=where)
        if not form.is_folder:
            one.add_argument("--force", action="store_true", help="write over a file that is there already")
        if form.is_for_training:
            one.description += (
                " Training rollouts with status ok; --validate writes validation rollouts instead, --all whatever "
                "there is. Rollouts named with --trajectory are taken as they are, and so is a status or validate that "
                "--where asks about."
            )
            one.add_argument("--all", action="store_true", help="validation too, and rollouts that did not end well")
        add_filters(one)
        add_pass(one)
        one.add_argument(
            "--trajectory", metavar="ID", nargs="+", action="extend", default=[],
            help="only these; a prefix of an id is enough",
        )  # fmt: skip
        store_after(one, "trajectory", ends_in_no_id)
        if name == "dpo":
            of_pairs = one.add_argument_group("pairs by label, instead of by reward")
            of_pairs.add_argument("--chosen", metavar="FILTER", help="such as label.good")
            of_pairs.add_argument("--rejected", metavar="FILTER", help="such as label.bad; of the same group")
        add_json(one)
        one.set_defaults(run=run, format=name, usage_error=one.error)


def run(options: argparse.Namespace) -> int:
    from rolltrace.exchange import select
    from rolltrace.query import compile_where

    chosen = EXPORTS[options.format]
    pairing = {name: getattr(options, name) for name in ("chosen", "rejected") if hasattr(options, name)}
    to_stdout = options.output == "-"
    if to_stdout and chosen.is_folder:
        raise ConfigError(f"the format {options.format} writes a folder; name it with -o FOLDER")
    if not to_stdout and not chosen.is_folder and not options.force:
        _refuse_to_overwrite(Path(options.output))
    store = open_asked(options)
    conditions = {**filters_of(options), **pass_of(options)}
    with working(f"reading {store.path}"):
        rules: list[str] = []
        selection = select(
            store,
            trajectory_ids=options.trajectory,
            for_training=chosen.is_for_training and not options.all,
            progress=progress("exporting"),
            **conditions,
        )
        if pass_of(options) or options.save or "passed" in compile_where(options.where).fields:
            rules = pass_rules(pass_meanings(options, store), selection.rows)
    tell_of_older_runs(selection.older_runs)
    if not selection.rows:
        raise NotFoundError(_why_nothing(store, selection, options))
    if chosen.is_folder:
        done = chosen.write_folder(selection, Path(options.output))
    elif to_stdout:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as a file would be
        done = chosen.write(selection, sys.stdout, **pairing)
    else:
        with _file(Path(options.output)) as out:
            done = chosen.write(selection, out, **pairing)
    report = sys.stderr if to_stdout else sys.stdout
    if options.json:
        fields: dict[str, Any] = {"format": options.format, "output": options.output, "chosen": len(selection.rows)}
        fields |= {"pass_rules": rules} if rules else {}
        print(json_line({**fields, "written": done.written, "skipped": dict(done.skipped)}), file=report)
    else:
        chosen_text = counted(len(selection.rows), "trajectory")
        summary = f"{chosen_text} chosen, {done.written} written{_left_out(done.skipped)}"
        print("; ".join([summary, *rules]), file=sys.stderr)
    return 0


def _left_out(reasons: Mapping[str, int]) -> str:
    return "".join(f"; left out {count}: {reason}" for reason, count in reasons.items())


def _why_nothing(store: Store, selection: Selection, options: argparse.Namespace) -> str:
    """Why there is nothing to export; an empty file would only be in the way of the corrected command."""
    if selection.left_out:
        return f"nothing was written{_left_out(selection.left_out)}"
    why = store.trajectories(**filters_of(options)).why_empty()
    return f"nothing was written: {why or 'none of these trajectories meets the filter'}"


def _refuse_to_overwrite(path: Path) -> None:
    if path.is_file():
        raise StoreError(f"{str(path)!r} already exists; name another file with -o, or add --force to overwrite it")


@contextmanager
def _file(path: Path) -> Iterator[TextIO]:
    """The file to write, which appears when it is complete; a device or pipe is written as it is."""
    plain = path.is_file() or not path.exists()
    target = replacing(path) if plain else nullcontext(path)
    try:
        with target as file, file.open("w", encoding="utf-8", newline="\n") as out:
            yield out
    except BrokenPipeError:
        raise
    except OSError as fault:
        if isinstance(fault, StoreError):
            raise
        raise StoreError(f"cannot write {str(path)!r}: {fault.strerror or fault}") from fault
