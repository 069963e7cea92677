"""Run the answers of docs/howto/cookbook.md against a demo's store and write below what they print: `make cookbook`.

Each ```sql or ```python block runs by itself, in a folder that has the store `rolltrace-demo`. What it prints stands in
the ```text block after it. The tests run the blocks too, and compare the heads of the tables.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "cookbook.md"
_ANSWER = re.compile(r"^```(sql|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def answers(page: str) -> list[tuple[str, str, str]]:
    """Language, block and what it is said to print, for each answer of a page."""
    return [(match[1], match[2], match[3] or "") for match in _ANSWER.finditer(page)]


_RUNNER = """
import contextlib, io, json, sys, traceback
from rolltrace.cli import main

printed = []
for language, block in json.load(sys.stdin):
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            if language == "python":
                exec(compile(block, "answer", "exec"), {"__name__": "__main__"})
            elif main(["sql", block, "rolltrace-demo"]):
                sys.exit(block)
    except Exception:
        traceback.print_exc()
        sys.exit(block)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


def run(blocks: list[tuple[str, str]], folder: Path) -> list[str]:
    """What answers print, each a language and a block, in a folder with the store.

    All of them in one process, because to start one takes longer than to answer; no block sees a name of another.
    """
    command = [sys.executable, "-c", _RUNNER]
    done = subprocess.run(command, cwd=folder, input=json.dumps(blocks), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    printed = (text.splitlines() for text in json.loads(done.stdout))
    return [
        "\n".join(lines[:-1] if language == "sql" else lines) + "\n"  # without the number of rows
        for (language, _), lines in zip(blocks, printed)
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)  # one that has the store already, or a new one
        if not (folder / "rolltrace-demo").exists():
            demo = [sys.executable, "-m", "rolltrace", "demo", "--no-view"]
            subprocess.run(demo, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        page = PAGE.read_text()
        printed = iter(run([(language, block) for language, block, _ in answers(page)], folder))
        text = _ANSWER.sub(lambda match: f"```{match[1]}\n{match[2]}```\n\n```text\n{next(printed)}```\n", page)
    PAGE.write_text(text)
    print(f"wrote {PAGE.name}: {len(answers(text))} answers")


if __name__ == "__main__":
    main()
