"""Writes the OpenAPI document that the viewer's TypeScript types are made from: `python tools/gen_openapi.py`."""

from __future__ import annotations

import json
from pathlib import Path

from rolltrace.view.openapi import document

FILE = Path(__file__).parents[1] / "viewer" / "src" / "api" / "openapi.json"


def text() -> str:
    """What the file should hold."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(text())
