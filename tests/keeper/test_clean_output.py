"""Logs, states, reasons and the process list hold no credentials."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from rolltrace._guard import logger
from rolltrace.cli import main
from rolltrace.keeper import clean_output
from rolltrace.keeper.clean_output import Cleaner, CleanStream
from rolltrace.keeper.outbox import Outbox, State
from rolltrace.keeper.position import REFUSED, Entry
from rolltrace.keeper.process import Senders
from rolltrace.tables import note_routes
from tests.background import eventually, kill_keepers
from tests.draining import drain

PASSWORD = "swordfish"
KEY = "sk-" + "a1" * 20


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path / "store")
    with rolltrace.rollout_trace_attr(1, step=1):
        pass
    rolltrace.shutdown()
    drain(tmp_path / "store")
    return tmp_path / "store"


def test_a_senders_log_and_state_hold_no_password_of_its_url(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://bob:{PASSWORD}@127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20c3dvcmRm")
    note_routes(store, {"project": "p", "experiment": "e", "backends": ["otlp"]})
    senders, outbox = Senders(store), Outbox(store, "otlp")
    senders.wake(news=True)
    try:
        eventually(lambda: outbox.state.last_error or outbox.state.stopped)
        commands = [path.read_bytes() for path in _commands(store)]
        assert commands
        assert not any(PASSWORD.encode() in command for command in commands)
    finally:
        kill_keepers(store)
        for process in senders._processes.values():
            process.wait()
    assert "url password" in str(outbox.state) or "OTEL_EXPORTER_OTLP_ENDPOINT" in str(outbox.state)
    for path in outbox.folder.rglob("*"):
        if path.is_file():
            assert PASSWORD not in path.read_text()
            assert path.stat().st_mode & 0o777 == 0o600
    main(["stats", str(store)])
    main(["doctor", str(store)])
    assert PASSWORD not in capsys.readouterr().out


def _commands(store: Path) -> list[Path]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if str(store).encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(folder / "cmdline")
        except OSError:
            continue
    return found


def test_what_a_process_of_ours_prints_logs_and_dies_of_is_cleaned(tmp_path: Path) -> None:
    program = f"""
import logging, sys
from pathlib import Path
from rolltrace._guard import logger
from rolltrace.keeper.clean_output import clean_output
clean_output(Path({str(tmp_path)!r}))
print("printed {KEY}")
sys.stdout.write("in "); sys.stdout.write("pieces sk-"); sys.stdout.write("{KEY[3:]}\\n")
logging.getLogger("vendor").warning("vendor http://bob:{PASSWORD}@host")
logger.warning("ours %s", "quitesecret")
raise ConnectionError("cannot reach http://bob:{PASSWORD}@host with quitesecret")
"""
    environment = {**os.environ, "SHIPPING_API_KEY": "quitesecret"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    both = done.stdout + done.stderr
    for word in (
        "printed [redacted: openai key, 43 chars]",
        "in pieces [redacted:",
        "vendor http://bob:[redacted",
        "ours [",
    ):
        assert word in both
    assert "ConnectionError: cannot reach" in both
    assert not any(secret in both for secret in (KEY, PASSWORD, "quitesecret"))


def test_reasons_and_errors_are_cleaned_before_they_are_written(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, "vendor")
    with outbox.sending():
        outbox.position.add([Entry(REFUSED, "0" * 32, 1, reason=f"the key {KEY} is not known")])
    outbox.state = State(
        last_error=f"401 for {KEY}", stopped=f"http://bob:{PASSWORD}@host", reasons=dict(outbox.position.reasons)
    )
    for path in outbox.own_folder.iterdir():
        assert KEY not in path.read_text()
        assert PASSWORD not in path.read_text()
    assert outbox.state.last_error == "401 for [redacted: openai key, 43 chars]"


def test_what_is_logged_in_a_process_of_the_users_is_cleaned_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clean_output.clean_log(tmp_path)
    clean_output.clean_log(tmp_path)
    try:
        try:
            raise OSError(f"http://bob:{PASSWORD}@host")
        except OSError as fault:
            logger.warning("it said %s", fault, exc_info=fault)
        assert len(logger.filters) == 1
    finally:
        logger.filters.clear()
    assert PASSWORD not in caplog.text
    assert "OSError" in caplog.text
    assert logging.getLogger("rolltrace") is logger


def test_secrets_of_the_environment_are_known_by_their_variables(tmp_path: Path) -> None:
    cleaner = Cleaner(
        tmp_path, {"X_API_KEY": "plainword", "OTEL_EXPORTER_OTLP_HEADERS": "a=Bearer%20otherword", "HOME": "/home/bob"}
    )
    assert cleaner.text("plainword otherword /home/bob") == (
        "[redacted: X_API_KEY, 9 chars] [redacted: OTEL_EXPORTER_OTLP_HEADERS, 9 chars] /home/bob"
    )


def test_a_line_that_is_not_over_is_written_by_flush() -> None:
    below = io.StringIO()
    stream = CleanStream(below, Cleaner(Path("nowhere")))
    stream.write("half a li")
    assert below.getvalue() == ""
    stream.flush()
    assert below.getvalue() == "half a li"
