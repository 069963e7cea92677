"""`rolltrace run train.py`: every trainer whose rollouts can be recorded is attached to, with no line changed."""

from __future__ import annotations

import functools
from typing import Any

from rolltrace.integrations.after_import import after_import, waiting_for
from rolltrace.integrations.trl.trainer import attach, guarded, missing_seams

_installed = False


@waiting_for("trl")
def install_when_imported() -> None:
    """Attach to trainers as they are made; done once per process."""
    global _installed
    if not _installed:
        _installed = True
        after_import("transformers.trainer", _change)


def _change(module: Any) -> None:
    """Change `transformers.trainer`: that of TRL is rebuilt by others, but always calls this."""
    theirs = module.Trainer.__init__

    @functools.wraps(theirs)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        theirs(self, *args, **kwargs)
        if not missing_seams(type(self)):
            guarded(attach, self)

    module.Trainer.__init__ = init
