"""Reads the trajectories that OpenPipe ART logs: `trajectories/SPLIT/STEP.parquet`, one row each.

The step is the file's name, the split its folder: all but `train` are validation rollouts. Rows with the same
`group_index` are the rollouts of one sample. What the model was trained on is `trainable`. There are no tokens.
`metrics` are terms of the reward as far as they are numbers, `metadata` becomes tags.
"""

from __future__ import annotations

from typing import Any

from rolltrace.exchange import fields
from rolltrace.exchange.draft import ImportedRow
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.packed_files import parquet_rows
from rolltrace.exchange.source_lines import Line
from rolltrace.exchange.text import parse_if_json


def reader(source: Source) -> LineReader:
    """A reader of the trajectories of one step."""
    source.split = parquet_rows
    stem, split = source.path.stem, source.path.parent.name
    step = int(stem) if stem.isdecimal() and len(stem) < 19 else None
    is_split = source.path.parent.parent.name == "trajectories"
    source.told_by_path(step, split if is_split else None)
    samples = fields.Samples()

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        fields.require(record, "messages", "reward")
        reward = fields.number(record["reward"], "reward")
        group = fields.whole(record.get("group_index"), "group_index")
        where = samples.of(line.number if group is None else ("group", group), line.number - 1)
        if group is not None:
            where["sample_index"] = group
        draft = source.draft(line, "art", step=step, validate=is_split and split != "train", **where)
        for message in fields.objects(record, "messages"):
            own = fields.leave(fields.without_nothing(message), ("trainable",))
            if "tool_calls" in own:
                own["tool_calls"] = parse_if_json(own["tool_calls"])
            # What the model said is trainable; other answers were there before, such as examples.
            said_before = own.get("role") == "assistant" and message.get("trainable") is False
            draft.add_message(own, said_before=said_before)
        columns = {name: parse_if_json(record.get(name)) for name in ("metrics", "metadata")}
        draft.reward(reward, fields.numbers_in(fields.inside(columns, "metrics")))
        tags = {**fields.inside(columns, "metadata"), **fields.pick(record, "logs", "tools", "group_metadata")}
        return draft.finish(fields.without_nothing({**tags, "split": split}))

    return read
