"""Tags that were meant to be coordinates: `rollout_trace_attr(sample=3)` makes a tag, and a rollout without a sample.

Said once for each name. A name is only suspected where the coordinate that it resembles was not given.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rolltrace._guard import logger
from rolltrace.record import Coordinates

_OTHER_NAMES = {
    "sample_index": ("sample", "sampleid", "sampleidx", "sampleno", "samplenumber", "dataindex", "dataidx"),
    "step": ("steps", "globalstep", "globalsteps", "trainstep", "trainingstep", "stepno", "stepidx", "stepindex"),
    "rollout_n": ("rollout", "rolloutid", "rolloutidx", "rolloutindex", "rolloutno", "nrollout", "rolloutnumber"),
    "validate": ("val", "isval", "valid", "validation", "isvalidation", "isvalidate", "validating"),
    "experiment_name": ("experiment", "exp", "expname"),
}
"""Coordinate -> what people call it, without underscores."""
_LIKENESS = 0.8
_warned_of: set[str] = set()


def warn_of_misspelt(tags: Iterable[str], where: Coordinates) -> None:
    """Say which of these tags were most likely meant to be coordinates."""
    for tag in tags:
        meant = _meant(tag)
        if meant is None or tag in _warned_of:
            continue
        given = getattr(where, meant, None)
        if given is None or given is False:
            _warned_of.add(tag)
            instead = (
                "the experiment is named in rolltrace.init(project_name, experiment_name)"
                if meant == "experiment_name"
                else f"did you mean {meant}?"
            )
            logger.warning("rollout_trace_attr has no argument %r, so it becomes a tag; %s", tag[:100], instead)


@lru_cache(maxsize=1000)  # on the way of every trajectory
def _meant(tag: str) -> str | None:
    """The coordinate that a tag resembles; None if it resembles none."""
    from difflib import SequenceMatcher

    plain = tag.lower().replace("_", "").replace("-", "")
    for name, others in _OTHER_NAMES.items():
        own = name.replace("_", "")
        if plain in (own, *others) or SequenceMatcher(None, plain, own).ratio() >= _LIKENESS:
            return name
    return None
