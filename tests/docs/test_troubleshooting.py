"""Every warning that rolltrace logs or gives, every error and every loss is explained in troubleshooting.md."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import rolltrace.errors
from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "rolltrace"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")

WITHOUT_TEXT = {
    "_announce.py": ["unknown environment variable ...", "verl is imported, but has not loaded rolltrace's plug-in"],
    "drain/apart.py": ["draining ... is put off: ..."],  # the same fault, told by the process that drains one file
    "keeper/sender_loop.py": ["BACKEND: ..."],
    "query/damage.py": [
        "cannot be read (...): the rows there",
        "what waits there",
        "MB of journals were not drained",
        "nothing in the store has the",
    ],
}
"""Where a message is put together elsewhere: what the page must have for it."""


def warnings_in(path: Path) -> Iterator[str]:
    """The text of each warning or error that a file logs or gives, with ... for what changes."""
    source = path.read_text(encoding="utf-8")
    if "logger" not in source and "warnings" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            logs = node.func.attr in ("warning", "error", "exception", "critical") and owner.endswith("logger")
            if logs or (owner, node.func.attr) == ("warnings", "warn"):
                yield text_of(node.args[0])


def text_of(message: ast.expr) -> str:
    if isinstance(message, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "..." for part in message.values)
    if isinstance(message, ast.Constant):
        return re.sub(r"%[sdr]", "...", message.value)
    return "..."


def test_every_warning_is_explained() -> None:
    missing = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for text in warnings_in(path):
            wanted = [text] if re.search(r"[a-z]", text) else WITHOUT_TEXT[name]
            shown = PAGE.replace("(......)", "(...)")
            missing += [f"{name}: {each}" for each in wanted if each.replace("(......)", "(...)") not in shown]
    assert missing == []


def test_the_walk_finds_warnings() -> None:
    found = {text for path in SOURCE.rglob("*.py") for text in warnings_in(path)}
    assert "draining ... failed, it is tried again: ..." in found
    assert "... (not recorded; counted: rolltrace stats)" in found
    assert len(found) > 30


def test_every_error_is_explained() -> None:
    errors = [name for name, each in inspect.getmembers(rolltrace.errors, inspect.isclass) if name != "RolltraceError"]
    assert [name for name in errors if f"| `{name}` |" not in PAGE] == []


def test_every_reason_for_a_loss_is_explained() -> None:
    journal = (ROOT / "docs" / "reference" / "journal.md").read_text(encoding="utf-8")
    documented = journal.partition("Reasons among the losses:")[2].partition("\n\n")[0]
    advised = (
        (SOURCE / "doctor" / "contents.py").read_text(encoding="utf-8").partition("_ADVICE = {")[2].partition("\n}")[0]
    )
    reasons = set(re.findall(r"`([a-z_]+)`", documented)) | set(re.findall(r'^    "(\w+)":', advised, re.MULTILINE))
    assert "disk_full" in reasons
    losses = PAGE.partition("## Losses")[2].partition("\n## ")[0]
    assert [reason for reason in sorted(reasons) if f"`{reason}`" not in losses and reason != "max_unsent_bytes"] == []
