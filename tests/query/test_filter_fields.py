"""The fields that a filter may name are those of the tables and of the docs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rolltrace.query.filters import FIELDS, compile_where
from rolltrace.record.tables import TRAJECTORIES

ROOT = Path(__file__).parent.parent.parent


def _rows(page: str, heading: str) -> list[list[str]]:
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


def test_the_page_lists_every_field_and_only_filters_that_compile() -> None:
    page = (ROOT / "docs/reference/filter.md").read_text()
    assert _rows(page, "Fields") == [[f"`{each.name}`", each.type, each.meaning] for each in FIELDS.values()]
    block = page.split("```text\n")[1].split("```")[0]
    examples = [line for line in block.splitlines() if line] + [row[0].strip("`") for row in _rows(page, "Operators")]
    assert len(examples) > 15
    for example in examples:
        compile_where(example)


def test_fields_have_the_types_of_their_columns() -> None:
    types = {"text": "text", "int64": "number", "float64": "number", "bool": "bool"}
    columns = {each.name: types.get(each.type) for each in TRAJECTORIES.columns if each.name != "sample_index"}
    shared = [each for each in FIELDS.values() if each.name in columns]
    assert len(shared) > 10
    assert [each.type for each in shared] == [columns[each.name] for each in shared]


def test_compiling_a_filter_loads_no_database() -> None:
    # The package around it loads DuckDB to answer queries, so an empty one stands in for it.
    program = """if True:
        import sys, types, rolltrace
        package = sys.modules["rolltrace.query"] = types.ModuleType("rolltrace.query")
        package.__path__ = [rolltrace.__path__[0] + "/query"]
        import rolltrace.query.filters
        print("duckdb" in sys.modules, "pyarrow" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
