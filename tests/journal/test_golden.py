"""A journal written by version 1 of the format is read by every later version, to the last value."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

from rolltrace.journal import Damage, Entry, SegmentReader, journal_files, read_journals
from rolltrace.record import Array, Event, Opaque, OpEnd, TrajectoryEnd, decode_coordinates, decode_value

GOLDEN = Path(__file__).parent.parent / "golden" / "journal-v1"


def test_the_first_journal_format_is_still_read() -> None:
    items = [item for _, item in read_journals(GOLDEN)]
    assert not [item for item in items if isinstance(item, Damage)]
    records = [item.record for item in items if isinstance(item, Entry)]
    first, second, broken = [each for each in records if isinstance(each, OpEnd)]

    assert decode_value(first.inputs) == {"prompt_ids": [1, 2, 3], "image": None}
    assert decode_value(first.outputs) == {
        "token_ids": [5, 6, 7],
        "logprobs": [-0.25, -1.5, -math.inf],
        "text": "你好 🎉",
    }
    assert (first.name, first.kind, first.status) == ("generate", "llm", "ok")
    assert decode_coordinates(first.coordinates)._asdict() == {
        "step": 3,
        "sample_index": "sample",
        "rollout_n": 1,
        "validate": False,
    }
    inputs = decode_value(second.inputs)
    assert isinstance(inputs["prompt_ids"], Array)
    assert inputs["prompt_ids"].tolist() == [0, 1, 2, 3]
    assert inputs["image"] == Opaque("builtins.object", {})
    assert broken.error is not None
    assert (broken.status, broken.error.type, broken.error.message) == ("error", "ValueError", "no luck")

    reward, note = [each for each in records if isinstance(each, Event)]
    assert decode_value(reward.body) == {"value": 0.5, "terms": {"format": 0.5}}
    when = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
    assert decode_value(note.body) == {
        "text": "odd values",
        "fields": {"big": 2**70, "text": "\ud800", "when": when},
    }
    (end,) = [each for each in records if isinstance(each, TrajectoryEnd)]
    assert decode_value(end.tags) == {"difficulty": "hard"}


def test_its_header_is_still_read() -> None:
    (path,) = journal_files(GOLDEN)
    reader = SegmentReader.open(path)
    assert (reader.state, reader.meta["project"], reader.meta["experiment"]) == ("sealed", "golden", "v1")
    assert reader.losses == {"sample_limit": {"3": 1}}
