"""`rolltrace sync`: send trajectories to a backend, now and in this process."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import age_sec, counted, size
from rolltrace.cli.command import command, option, section
from rolltrace.cli.options import EXPERIMENT, JSON, PROJECT, STORE, WHERE, Options, tell_of_runs_not_meant
from rolltrace.cli.output import plain, progress, warn
from rolltrace.errors import BackendError, ConfigError, OutageError, RolltraceError

if TYPE_CHECKING:
    from rolltrace.keeper import Outbox, Pending, Sender, SentBy
    from rolltrace.query import Store

_TRIES = 4
_WAIT_SEC = 60.0
_EXAMPLES = """examples:
  rolltrace sync --to mlflow                 all that it does not have yet
  rolltrace sync --to weave --where "reward < 0.5" --since 100 --dry-run
  rolltrace sync runs/store --to otlp --experiment grpo-7b --since 2h --again
  rolltrace sync --to weave --where "flag is not null" --save

more: rolltrace docs backends"""


@command(
    "send trajectories to a backend",
    "Send finished trajectories to a backend (mlflow, weave, ...), from this machine: what was held back or could not "
    "be sent, and experiments that were traced without it. What the backend has is not sent again, so the command can "
    "be repeated. Exit code 3 if the backend refused some.",
    STORE,
    option("--to BACKEND", "such as mlflow, weave, trackio or otlp", required=True),
    section(
        "which trajectories", PROJECT, EXPERIMENT, WHERE,
        option("--since STEP|AGE", "from this step on, or ended within 30m, 12h, 7d, ..."),
        option("--again", "also resend what the backend has; it is replaced"),
    ),
    option("--dry-run", "only print how many, and about how many bytes"),
    option("--save", "send nothing; apply --where and --max-bytes-per-day to what is sent automatically from now on"),
    option("--max-bytes-per-day SIZE", "with --save, such as 30MiB"),
    JSON,
    epilog=_EXAMPLES,
)  # fmt: skip
def sync(options: Options) -> int:
    from rolltrace import backends
    from rolltrace.keeper import Outbox

    path = options.store_path(may_be_new=options.save, to_write=not options.dry_run)
    backends.check([options.to])
    outbox = Outbox(path, options.to)
    if options.save:
        return _save(outbox, options)
    if options.max_bytes_per_day is not None:
        raise ConfigError("--max-bytes-per-day limits what is sent automatically: add --save")
    return _dry_run(outbox, options) if options.dry_run else _send(outbox, options)


def _save(outbox: Outbox, options: Options) -> int:
    from rolltrace.files import is_store
    from rolltrace.keeper import SendingPolicy
    from rolltrace.tables import TableStore, address_in

    for name in ("project", "experiment", "since"):
        if getattr(options, name) is not None:
            raise ConfigError(f"--save keeps --where and --max-bytes-per-day, not --{name}; write it into --where")
    policy = SendingPolicy.of(options.where, options.max_bytes_per_day)
    if not outbox.store.is_dir() or not is_store(outbox.store):  # limits are best set before the first run
        TableStore(address_in(outbox.store)).prepare()
        warn(f"created the store {plain(str(outbox.store))}")
    outbox.policy = policy
    limit = (
        "as much as there is" if policy.max_bytes_per_day is None else f"up to {size(policy.max_bytes_per_day)} a day"
    )
    what = "all trajectories" if policy.where is None else f"trajectories where {plain(policy.where)}"
    print(f"saved: {plain(outbox.backend)} gets {what}, {limit}")
    return 0


def _pending(store: Store, outbox: Outbox, options: Options) -> Pending:
    from rolltrace.keeper import asked_for

    places = {"project": options.project, "experiment": options.experiment}
    tell_of_runs_not_meant(store, options.where, **places)
    pending = asked_for(store, outbox, again=options.again, where=options.where, **places, **_since(options.since))
    if pending.elsewhere:
        left_out = f"{counted(pending.elsewhere, 'trajectory')} left out, because another host is sending them"
        warn(f"{left_out}; --again sends everything once more, under the same ids")
    return pending


def _dry_run(outbox: Outbox, options: Options) -> int:
    from rolltrace.query import sizes

    store = options.open_store()
    pending = _pending(store, outbox, options)
    ids = [item.trajectory_id for item in pending.send]
    total = sum(sum(sizes(store, ids[at : at + 1000]).values()) for at in range(0, len(ids), 1000))
    if not pending.total:
        _tell_of_nothing(store, options)
    updates = f", and newer scores of {len(pending.update)}" if pending.update else ""
    options.report(
        {"send": len(ids), "update": len(pending.update), "bytes": total},
        f"would send {counted(len(ids), 'trajectory')} to {plain(options.to)}, about {size(total)}{updates}",
    )
    return 0


def _send(outbox: Outbox, options: Options) -> int:
    store = options.open_store(to_write=True)
    deadline = time.monotonic() + _WAIT_SEC
    while True:
        with outbox.sending() as alone:
            if alone:
                return _send_alone(store, outbox, options)
        if time.monotonic() > deadline:
            raise ConfigError(f"another process is sending this store to {options.to!r}; try again when it is done")
        time.sleep(0.2)


def _send_alone(store: Store, outbox: Outbox, options: Options) -> int:
    from rolltrace import backends
    from rolltrace.keeper import STOPS, Sender

    left = _pending(store, outbox, options)
    total = left.total
    backend = backends.load(options.to)
    sender = Sender(store, outbox, backend, by_hand=True)
    bar = progress("sending")
    try:
        for attempt in range(1, _TRIES + 1):
            problem = _try(sender, left, lambda done, rest: bar(total - rest + done, total))
            left = sender.left
            if problem is None:
                outbox.works_again()
                if not total:
                    _tell_of_nothing(store, options)
                return _report(sender, outbox, options)
            if attempt == _TRIES or isinstance(problem, STOPS):
                break
            time.sleep(2**attempt / 2)
    finally:
        backend.close()
    assert problem is not None
    what = str(problem) if isinstance(problem, RolltraceError) else f"{type(problem).__name__}: {problem}"
    done = f"{total - left.total} of {total} were sent before; the same command goes on from there"
    raise (OutageError if isinstance(problem, OutageError) else BackendError)(
        f"{options.to}: {what}; {done}"
    ) from problem


def _tell_of_nothing(store: Store, options: Options) -> None:
    """Say so if the store has nothing that was asked for, sent or not."""
    chosen = store.trajectories(where=options.where, project=options.project, experiment=options.experiment, limit=1)
    if not len(chosen):
        warn(plain(chosen.why_empty()))


def _try(sender: Sender, pending: Pending, bar: Callable[[int, int], None]) -> Exception | None:
    try:
        sender.send(pending, progress=bar)
    except Exception as error:
        return error
    return None


def _report(sender: Sender, outbox: Outbox, options: Options) -> int:
    has = outbox.position.sent_by()
    options.report(
        {
            "sent": sender.sent,
            "updated": sender.updated,
            "refused": sender.refused,
            "has": {"total": has.total, **has._asdict()},
        },
        f"{_done(sender, options)}; {plain(options.to)} has {has.total} of this store{_senders(has)}",
    )
    if sender.refused and not options.json:
        print(f"{options.to} refused {counted(sender.refused, 'trajectory')}: rolltrace stats", file=sys.stderr)
    return 3 if sender.refused else 0


def _done(sender: Sender, options: Options) -> str:
    if not sender.sent and not sender.updated and not sender.refused:
        return "nothing was left to send"
    updated = f", newer scores of {sender.updated}" if sender.updated else ""
    return f"sent {counted(sender.sent, 'trajectory')} to {plain(options.to)}{updated}"


def _senders(has: SentBy) -> str:
    words = {"in the background": has.background, "by rolltrace sync": has.by_hand, "by other hosts": has.other_hosts}
    parts = [f"{count} {who}" for who, count in words.items() if count]
    return f", sent {', '.join(parts)}" if parts else ""


def _since(text: str | None) -> dict[str, Any]:
    """A step, or an age: what `survey` takes."""
    if text is None:
        return {}
    if re.fullmatch(r"-?\d+", text):
        return {"since_step": int(text)}
    seconds = age_sec("--since", text, "a step such as 100 or an age such as 30m, 12h or 7d")
    return {"since_ns": time.time_ns() - round(seconds * 1e9)}
