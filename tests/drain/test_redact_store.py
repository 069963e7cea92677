"""Secrets planted wherever a program can write: none is found in the store, in exports, or while it runs."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.exchange.import_chat import reader
from rolltrace.exchange.importer import ImportTarget, import_files
from rolltrace.record import to_json
from tests.drain.secrets_corpus import PLANTED as CORPUS
from tests.drain.secrets_corpus import Planted
from tests.draining import drain
from tests.nightly import nightly

PLANTED = nightly(CORPUS, CORPUS[::4])  # each of them alone is tested in test_redact.py
TEXTS = [planted for planted in PLANTED if isinstance(planted.value, str) and len(planted.value) < 150]
VALUES = PLANTED


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt: Any) -> Any:
    return {"content": prompt, "finish_reason": prompt if isinstance(prompt, str) else "stop"}


@rolltrace.rollout_trace_op
def stream(pieces: Any) -> Iterator[Any]:
    yield from pieces


def rollout(number: int, planted: Planted) -> None:
    """A trajectory with the secret in every place."""
    value = planted.value
    text = value if isinstance(value, str) else "nothing"
    with (
        contextlib.suppress(RuntimeError),
        rolltrace.rollout_trace_attr(
            text if number % 2 else number, step=1, rollout_n=number, name=text, tags={"config": value, text: 1}
        ) as trajectory,
    ):
        generate(value)
        generate([1, value])
        list(stream(value if isinstance(value, list) else [value, text]))
        rolltrace.rollout_trace_op(name=text)(lambda: None)()
        thread = threading.Thread(target=generate, args=("x",), name=text)
        thread.start()
        thread.join()
        trajectory.tag(later=value)
        trajectory.note(text, body=value)
        trajectory.reward(1.0, terms={text: 0.5})
        trajectory.transition(
            rolltrace.RolloutTrace(prompt=value, reward_data={"why": value}, extra=[value]),
            reward=0.5, metrics={text: 1.0}, logs={"log": text}, stop_reason=text,
        )  # fmt: skip
        rolltrace.score(trajectory.id, text or "x", text, reason=text)
        with contextlib.suppress(RuntimeError):
            fail(text)
        raise type(text[:60].replace("\0", "") or "E", (RuntimeError,), {})(text)


def pause(text: str) -> Iterator[str]:
    """An op that has begun, and goes on when somebody asks for more."""
    yield text
    yield text


@rolltrace.rollout_trace_op
def fail(text: str) -> None:
    raise RuntimeError(f"cannot use {text}")


def found(text: str, planted: list[Planted]) -> list[str]:
    """The secrets in a text, and what stands around them."""
    places = [(each, text.find(trace)) for each in planted for trace in each.traces]
    return [f"{each.label}: ...{text[max(0, at - 80) : at + 60]}..." for each, at in places if at >= 0]


def everything(store: Path) -> str:
    """All text in all files of a store but the journals; Parquet files as rows."""
    texts = []
    for path in sorted(store.rglob("*")):
        texts.append(str(path.relative_to(store)))
        if path.is_dir() or path.suffix in (".seg", ".state"):  # the journals, and what is open in them
            continue
        if path.suffix == ".parquet":
            rows = pq.read_table(path, partitioning=None).to_pylist()
            texts += [str(value) for row in rows for value in row.values() if isinstance(value, str)]
        else:
            texts.append(path.read_bytes().decode("latin-1"))
    return "\n".join(texts).replace('\\"', '"').replace("\\\\", "\\")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose journals hold every secret in every place, nothing drained yet."""
    store = tmp_path_factory.mktemp("secrets") / "store"
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off", limits={"max_stream_items": 1000})
    for number, planted in enumerate(VALUES):
        rollout(number, planted)
    rolltrace.shutdown()
    for planted in TEXTS[::12]:
        rolltrace.init(planted.value[:150], f"e {planted.value}"[:150], ["rolltrace"], store=store, drain="off")
        with rolltrace.rollout_trace_attr(1, step=1):
            generate("x")
        rolltrace.shutdown()
    return store


def test_no_planted_secret_is_found_anywhere(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journals = "".join(path.read_bytes().decode("latin-1") for path in recorded.rglob("*.seg"))
    ascii_only = [each for each in PLANTED if not each.pieces and each.secret.isprintable()]
    assert len(found(journals, ascii_only)) >= len(ascii_only)  # they are there: the test can fail

    drain(recorded)
    assert not list(recorded.rglob("*.seg"))
    assert found(everything(recorded), PLANTED) == []

    assert main(["export", "jsonl", str(recorded), "--output", str(tmp_path / "all.jsonl")]) == 0
    assert found((tmp_path / "all.jsonl").read_text(), PLANTED) == []
    capsys.readouterr()
    assert main(["ls", str(recorded), "--json"]) == 0
    assert found(capsys.readouterr().out, PLANTED) == []
    assert main(["stats", str(recorded), "--json"]) == 0
    assert found(capsys.readouterr().out, PLANTED) == []


def test_no_planted_secret_is_found_in_what_is_told_of_running_ops(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for planted in TEXTS:
        text = planted.value
        with rolltrace.rollout_trace_attr(text, step=1, name=text, tags={"config": text}):
            rolltrace.rollout_trace_op(name=text)(lambda: None)()
    with contextlib.ExitStack() as running:
        for planted in TEXTS:
            text = planted.value
            running.enter_context(rolltrace.rollout_trace_attr(text, step=2, name=text, tags={"config": text}))
            stopped = rolltrace.rollout_trace_op(name=text)(pause)(text)
            next(stopped)
            running.callback(stopped.close)
        drain(tmp_path)
        (live,) = (tmp_path / "live").iterdir()
        assert len(json.loads(live.read_bytes())["ops"]) == len(TEXTS)
        assert found(everything(tmp_path), PLANTED) == []


def test_no_planted_secret_is_found_in_an_imported_store(tmp_path: Path) -> None:
    lines = [
        {
            "messages": [{"role": "user", "content": to_json(each.value)}, {"role": "assistant", "content": "ok"}],
            "project": each.value if isinstance(each.value, str) and number % 9 == 0 and each.value else "p",
            "experiment": "e",
            "name": each.value if isinstance(each.value, str) and each.value else "n",
            "tag": to_json(each.value),
        }
        for number, each in enumerate(PLANTED)
        if "bytes" not in each.label
    ]
    file = tmp_path / "chat.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    store = tmp_path / "store"
    report = import_files(reader, [file], ImportTarget(store))
    assert report.imported == len(lines)
    assert found(everything(store), PLANTED) == []


def test_imports_follow_the_rules_of_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "redact.json").write_text('{"shapes": {"badge number": "B-[0-9]{4}"}}')
    (store / "format.json").write_text('{"format": 2}')
    file = tmp_path / "chat.jsonl"
    file.write_text(
        '{"messages": [{"role": "assistant", "content": "I am B-1234"}], "project": "p", "experiment": "e"}\n'
    )
    import_files(reader, [file], ImportTarget(store))
    assert "B-1234" not in everything(store)
    assert "[redacted: badge number, 6 chars]" in everything(store)
