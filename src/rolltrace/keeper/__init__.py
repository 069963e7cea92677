"""Keep house: the one process per host and store that drains journals, compacts, and does what comes after."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.keeper.clean_output import Cleaner
    from rolltrace.keeper.outbox import Outbox, SendingPolicy
    from rolltrace.keeper.pending import Pending, Report, asked_for, reports
    from rolltrace.keeper.plugin_checks import installed_checks
    from rolltrace.keeper.policy import RetentionPolicy, check_policy, read_policy, write_policy
    from rolltrace.keeper.position import SentBy
    from rolltrace.keeper.process import collect_rarely, follow, run, run_once
    from rolltrace.keeper.pruning import Foreseen, Plan, Removal, foresee, plan_pruning, plan_removal
    from rolltrace.keeper.retention import Decision, decide, retain
    from rolltrace.keeper.sender import STOPS, Sender
    from rolltrace.keeper.upkeep import abandoned_files, vacuum

_LATER, __getattr__ = load_later(
    __name__,
    {
        "clean_output": "Cleaner",
        "outbox": "Outbox SendingPolicy",
        "pending": "Pending Report asked_for reports",
        "plugin_checks": "installed_checks",
        "policy": "RetentionPolicy check_policy read_policy write_policy",
        "position": "SentBy",
        "process": "collect_rarely follow run run_once",
        "pruning": "Foreseen Plan Removal foresee plan_pruning plan_removal",
        "retention": "Decision decide retain",
        "sender": "STOPS Sender",
        "upkeep": "abandoned_files vacuum",
    },
)
"""Name -> its module, loaded when it is asked for: a drainer has no use for the query side, nor a command for most."""


__all__ = [
    "STOPS",
    "Cleaner",
    "Decision",
    "Foreseen",
    "Outbox",
    "Pending",
    "Plan",
    "Removal",
    "Report",
    "RetentionPolicy",
    "Sender",
    "SendingPolicy",
    "SentBy",
    "abandoned_files",
    "asked_for",
    "check_policy",
    "collect_rarely",
    "decide",
    "follow",
    "foresee",
    "installed_checks",
    "plan_pruning",
    "plan_removal",
    "read_policy",
    "reports",
    "retain",
    "run",
    "run_once",
    "vacuum",
    "write_policy",
]
