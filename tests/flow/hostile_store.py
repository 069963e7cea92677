"""Stores that somebody made up to do harm, and a program that asks everything of one.

`CRAFTED` has one function per attack: it is given a good store, and a folder outside it with a secret, and spoils the
store. As a program (`python -m tests.flow.hostile_store STORE`), this runs every command that reads and asks every
endpoint of the viewer, and prints what came of it as JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.nightly import nightly

FLIPPED = nightly(25, 6)
"""So many bytes of a footer are changed, each in a part of its own."""
SECRET = "a-secret-outside-the-store"
CODES = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\nrolltrace: all is well\u202e"
EVERY_TABLE = "from spans join trajectories using (trajectory_id) left join scores using (trajectory_id)"
READING = (
    ("ls",), ("ls", "--where", "text ~ 'a'"), ("show", "{id}"), ("show", "{id}", "--full"), ("groups",), ("plot",),
    ("diff", "{id}", "{other}"), ("live",), ("sql", EVERY_TABLE), ("stats",), ("store", "journal", "status"),
    ("store", "journal", "dump"), ("sync", "--to", "otlp", "--dry-run"), ("store", "retain"), ("doctor",),
    ("export", "jsonl", "--output", "{out}/a.jsonl"), ("export", "csv", "--output", "{out}/a.csv"),
    ("export", "sft", "--output", "{out}/a.sft"),
)  # fmt: skip


def _parts(store: Path, table: str = "ops") -> list[Path]:
    return sorted((store / table / "data").rglob("step-1/*.parquet"))


def _list_files(store: Path, *names: str, table: str = "ops") -> str:
    """Make the table list files of these names beside those that it has, or at a path; the first one."""
    log = store / table / "_delta_log"
    version = max(int(path.stem) for path in log.glob("*.json")) + 1
    folder = _parts(store, table)[0].parent.relative_to(store / table)
    actions = [
        {
            "add": {
                "path": quote(name if "/" in name else f"{folder}/{name}"),
                "partitionValues": {"project": "p", "experiment": "e", "step": "1"},
                "size": 1000,
                "modificationTime": 0,
                "dataChange": True,
                "stats": '{"numRecords": 1}',
            }
        }
        for name in names
    ]
    (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    return names[0]


def _instead(path: Path) -> Path:
    """The place of a file or folder, now empty."""
    aside = path.with_name(f".{path.name}.bad")
    if path.exists():
        path.rename(aside)
    return path


def linked_part(store: Path, outside: Path) -> str:
    (_parts(store)[0].parent / "linked.parquet").symlink_to(outside / "secret.parquet")
    return _list_files(store, "linked.parquet")


def paths_elsewhere(store: Path, outside: Path) -> str:
    """The log of a table may name any file."""
    secret = outside / "secret.parquet"
    return _list_files(store, "../../outside/secret.parquet", str(secret), f"file://{secret}", "data/../../secret.txt")


def lying_log(store: Path, outside: Path) -> str:
    """Entries that are no JSON, say nothing, or claim that all is gone."""
    for table, page in {"notes": b"\xff{", "flags": b"[1]\n", "tokens": b'{"add": 3}\n', "scores": b""}.items():
        log = store / table / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        (log / f"{len(list(log.glob('*.json'))):020}.json").write_bytes(page)
    return ""


def linked_folders(store: Path, outside: Path) -> str:
    _instead(store / "blobs").symlink_to(outside)
    (store / "journal" / "other-0123abcd").symlink_to(outside)
    (store / "tokenizers").symlink_to(outside)
    return "blobs"


def linked_pages(store: Path, outside: Path) -> str:
    for name in ("retention.json", "redact.json"):
        (store / name).symlink_to(outside / "secret.txt")
    return "retention.json"


def pipes(store: Path, outside: Path) -> str:
    os.mkfifo(_parts(store)[0].parent / "pipe.parquet")
    os.mkfifo(_instead(store / "retention.json"))
    os.mkfifo(next((store / "journal").iterdir()) / "20261116T000000-8-00000000-000000.seg")
    for lock in (store / "journal").glob("*/drainer.*"):
        os.mkfifo(_instead(lock))
    return _list_files(store, "pipe.parquet")


def pipe_as_version(store: Path, outside: Path) -> str:
    os.mkfifo(_instead(store / "format.json"))
    return "format.json"


def device_as_part(store: Path, outside: Path) -> str:
    (_parts(store)[0].parent / "zero.parquet").symlink_to("/dev/zero")
    (store / "redact.json").symlink_to("/dev/zero")
    return _list_files(store, "zero.parquet")


def folders_as_files(store: Path, outside: Path) -> str:
    (_parts(store)[0].parent / "folder.parquet").mkdir()
    _instead(store / "retention.json").mkdir()
    (next((store / "journal").iterdir()) / "20261116T000000-9-00000000-000000.seg").mkdir()
    return _list_files(store, "folder.parquet")


def files_as_folders(store: Path, outside: Path) -> str:
    for name in ("blobs", "outbox", "tokenizers", "live"):
        _instead(store / name).write_bytes(b"no folder")
    return ""


def odd_names(store: Path, outside: Path) -> str:
    names = (f"{CODES}.parquet".replace("/", ""), "...parquet", "..parquet", "a\nb.parquet")
    for name in names:
        (_parts(store)[0].parent / name).write_bytes(b"PAR1")
    (store / "journal" / f"host{CODES}-01234567".replace("/", "")).mkdir()
    _list_files(store, *names)
    return "...parquet"


def wrong_schema(store: Path, outside: Path) -> str:
    numbers = pa.table({"trajectory_id": [1, 2], "name": [[1.5], []]})
    for table, rows in (("trajectories", pa.table({"a": [{"b": [1]}]})), ("scores", pa.table({})), ("ops", numbers)):
        pq.write_table(rows, _parts(store, table)[0].parent / "wrong.parquet")
        _list_files(store, "wrong.parquet", table=table)
    return "wrong.parquet"


def lying_footers(store: Path, outside: Path) -> str:
    part = _parts(store)[0]
    data, folder = part.read_bytes(), part.parent
    lies = {
        "long.parquet": data[:-8] + (0x7FFFFFFF).to_bytes(4, "little") + b"PAR1",
        "short.parquet": data[:-8] + (1).to_bytes(4, "little") + b"PAR1",
        "none.parquet": b"PAR1PAR1",
        "empty.parquet": b"",
    }
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for at in range(footer, len(data) - 8, max(1, (len(data) - footer) // FLIPPED)):
        changed = bytearray(data)
        changed[at] ^= 0x3F  # counts, offsets, sizes that are wrong
        lies[f"flipped{at}.parquet"] = bytes(changed)
    for name, content in lies.items():
        (folder / name).write_bytes(content)
    return _list_files(store, *lies)


def huge_sparse_part(store: Path, outside: Path) -> str:
    part = _parts(store)[0]
    data = part.read_bytes()
    with open(part.parent / "sparse.parquet", "wb") as file:
        file.truncate(1 << 34)
        file.seek(0, os.SEEK_END)
        file.write(data[-8 - int.from_bytes(data[-8:-4], "little") :])
    with open(_instead(store / "retention.json"), "wb") as file:
        file.truncate(1 << 34)
    return _list_files(store, "sparse.parquet")


def expanding_part(store: Path, outside: Path, times: int = nightly(3000, 1600)) -> str:
    """A part of some kilobytes whose payloads are gigabytes: one value of 1 MB, so many times, in a dictionary."""
    part = _parts(store)[0]
    table = pq.read_table(part, partitioning=None)
    at = table.schema.get_field_index("payload")
    one = table.slice(0, 1)
    rows = pa.concat_tables([one] * times)
    value = pa.array(['{"inputs": {"query": "' + "a" * (1 << 20) + '"}, "outputs": null}'])
    payload = pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), value)
    rows = rows.set_column(at, "payload", payload.cast(pa.dictionary(pa.int32(), pa.string())))
    rows = rows.set_column(
        rows.schema.get_field_index("op_id"), "op_id", pa.array(range(10**9, 10**9 + times), pa.int64())
    )
    pq.write_table(rows, part.parent / "bomb.parquet", compression="zstd", use_dictionary=True)
    assert (part.parent / "bomb.parquet").stat().st_size < 1_000_000
    _list_files(store, "bomb.parquet")
    return ""


def absurd_journals(store: Path, outside: Path) -> str:
    from tests.hostile import META, write_segment

    write_segment(store, [b"\xc1" * 100, b"\x91" * 100_000, b""], name="20261116T000000-1-00000000")
    write_segment(store, [b"x"], meta=b"\xdf\xff\xff\xff\xff", name="20261116T000000-2-00000000")
    write_segment(
        store, [b"x"], meta={**META, "project": CODES, "experiment": "../../.."}, name="20261116T000000-3-00000000"
    )
    folder = write_segment(store, [b"x" * 1000], name="20261116T000000-4-00000000").parent
    segment = folder / "20261116T000000-4-00000000-000000.seg"
    data = bytearray(segment.read_bytes())
    data[-1016:-1000] = data[-1016:-1008] + b"\xff" * 8  # a record as long as all memory
    segment.write_bytes(data)
    with open(folder / "20261116T000000-5-00000000-000000.seg", "wb") as file:
        file.write(bytes(data))
        file.truncate(1 << 34)
    return ""


def unreadable_files(store: Path, outside: Path) -> str:
    part = _parts(store)[0]
    part.chmod(0)
    return part.name


def logs_elsewhere(store: Path, outside: Path) -> str:
    for folder in (store / "journal").iterdir():
        for name in ("drainer.log", "drainer.lock"):
            _instead(folder / name).symlink_to(outside / "written.txt")
    return ""


CRAFTED: dict[str, Callable[[Path, Path], str]] = {
    each.__name__: each
    for each in (
        linked_part, paths_elsewhere, lying_log, linked_folders, linked_pages, pipes, pipe_as_version, device_as_part,
        folders_as_files, files_as_folders, odd_names, wrong_schema, lying_footers, huge_sparse_part, expanding_part,
        absurd_journals, unreadable_files, logs_elsewhere,
    )
}  # fmt: skip
"""Each gives what `rolltrace doctor` must name; an empty text if there is nothing to name."""
TOGETHER = {
    "links and lies": (
        "linked_part", "paths_elsewhere", "linked_folders", "lying_log", "logs_elsewhere", "wrong_schema",
        "lying_footers",
        "huge_sparse_part", "expanding_part", "absurd_journals", "odd_names",
    ),
    "kinds": ("pipes", "device_as_part", "folders_as_files", "files_as_folders", "unreadable_files"),
    "pages": ("linked_pages", "pipe_as_version"),
}  # fmt: skip
"""What one store can have at once. With rules of redaction that cannot be used, as of `device_as_part`, no journal is
read."""


def _commands(store: Path, ids: list[str], out: Path) -> dict[str, dict[str, Any]]:
    from rolltrace.cli import main

    report = {}
    values = {"id": ids[0], "other": ids[1], "out": str(out)}
    for words in READING:
        command = [word.format(**values) for word in words]
        printed, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
            try:
                code: Any = main([*command, "--store", str(store)])
            except SystemExit as end:
                code = f"usage: {end.code}"
            except BaseException as fault:
                code = f"{type(fault).__name__}: {fault}"
        report[" ".join(words)] = {"code": code, "out": printed.getvalue()[-200_000:], "err": complained.getvalue()}
    return report


def _endpoints(store: Path, ids: list[str]) -> dict[str, dict[str, Any]]:
    from starlette.testclient import TestClient

    from rolltrace.view import access_for, application
    from rolltrace.view.openapi import document

    report = {}
    needed = {
        "project": "p",
        "experiment": "e",
        "ids": ",".join(ids[:2]),
        "q": "question",
        "listing": "groups",
        "part": "inputs",
    }
    with TestClient(application(store, access_for("127.0.0.1", 1, None)), base_url="http://127.0.0.1") as client:
        op_ids = ["0"]
        for path, operations in document()["paths"].items():
            if path == "/api/events" or "get" not in operations:
                continue
            wanted = {
                each["name"] for each in operations["get"]["parameters"] if each["in"] == "query" and each["required"]
            }
            values = {"trajectory_id": ids[0], "op_id": op_ids[0], "index": "0", "hash": "0" * 32}
            filled = re.sub(r"{(\w+)}", lambda found: values[found[1]], path)  # noqa: B023
            answer = client.get(filled, params={name: needed[name] for name in wanted})
            report[path] = {"status": answer.status_code, "text": answer.text[:200_000]}
            if path == "/api/trajectory/{trajectory_id}" and answer.status_code == 200:
                op_ids = [each["op_id"] for each in answer.json()["outline"]] or op_ids
    return report


def probe(store: Path, ids: list[str]) -> None:
    """Ask everything of a store, and print what came of it."""
    warnings.simplefilter("ignore")
    out = store.parent / "exported"
    out.mkdir()
    report = {"commands": _commands(store, ids, out), "endpoints": _endpoints(store, ids)}
    # Not `ru_maxrss`, which begins with what the process that started this one had.
    peak_mb = int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) // 1024
    print(json.dumps({**report, "peak_mb": peak_mb}))  # noqa: T201


if __name__ == "__main__":
    probe(Path(sys.argv[1]), sys.argv[2:])
