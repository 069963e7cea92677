"""Run the answers of docs/howto/cookbook.md against a demo's store and write below what they print: `make cookbook`.

Each ```sql or ```python block runs alone, in a folder that has the store `rolltrace-demo`. What it prints stands in the
```text block after it. The tests run the blocks too, and compare the heads of the tables.
"""

from __future__ import annotations

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


def run(language: str, block: str, folder: Path) -> str:
    """What an answer prints, in a folder with the store."""
    rolltrace = ["-m", "rolltrace", "sql", block, "rolltrace-demo"]
    command = [sys.executable, *(rolltrace if language == "sql" else ["-c", block])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{block}\n{done.stderr}")
    lines = done.stdout.splitlines()
    return "\n".join(lines[:-1] if language == "sql" else lines) + "\n"  # without the number of rows


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)  # one that has the store already, or a new one
        if not (folder / "rolltrace-demo").exists():
            demo = [sys.executable, "-m", "rolltrace", "demo", "--no-view"]
            subprocess.run(demo, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        page = PAGE.read_text()
        text = _ANSWER.sub(
            lambda match: f"```{match[1]}\n{match[2]}```\n\n```text\n{run(match[1], match[2], folder)}```\n", page
        )
    PAGE.write_text(text)
    print(f"wrote {PAGE.name}: {len(answers(text))} answers")


if __name__ == "__main__":
    main()
