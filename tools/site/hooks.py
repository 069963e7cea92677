"""What `make docs` adds to MkDocs: pages that stand at the root of the repository, and search without a server.

The Markdown under docs/ links to SECURITY.md and CHANGELOG.md where they are, so that it reads as plain files too. For
the site these become pages, and the links to them are changed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
FROM_ROOT = {"SECURITY.md": "security-policy.md", "CHANGELOG.md": "changelog.md"}
"""A file at the root, and the page of the site that it becomes."""


def on_files(files: Files, config: Any) -> Files:
    for name, page in FROM_ROOT.items():
        if files.get_file_from_path(page) is None:
            text = re.sub(r"\]\(docs/", "](", (ROOT / name).read_text(encoding="utf-8"))
            files.append(File.generated(config, page, content=text))
    shim = (Path(__file__).parent / "iframe-worker.js").read_text(encoding="utf-8")
    files.append(File.generated(config, "iframe-worker.js", content=shim))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links that lead out of docs/ to a file that is a page of the site lead to that page."""
    up = "../" * page.file.src_uri.count("/")
    for name, target in FROM_ROOT.items():
        markdown = markdown.replace(f"](../{up}{name}", f"]({up}{target}")
    return markdown
