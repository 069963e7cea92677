"""The few requests that change something: labels, notes, and what pass means. Every rule about them is here.

A write is a POST with a JSON body and a header of our own, from a page of this very server: `Origin` or
`Sec-Fetch-Site` must say so. A form or an image of another site can send neither the content type nor the header, and
a script of another site is not allowed to. What `view.security` asks of every request (host, token) comes before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request

from rolltrace.errors import ConfigError, RolltraceError
from rolltrace.files import write_problem
from rolltrace.query.model.store import Passing, Written
from rolltrace.view import requests

if TYPE_CHECKING:
    from rolltrace.query import Store

T = TypeVar("T")
HEADER, HEADER_VALUE = "x-rolltrace", "write"
MAX_BYTES = 128 << 10


class WriteRefused(RolltraceError):
    """The request may not change anything: the store, the server or the page that sent it is not one to write."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint
        """What to type instead."""


_PATH = re.compile(rf"(?:/s/[^/]+)?(?:{'|'.join(re.escape(each.path) for each in requests.WRITES)})")


class Writing(NamedTuple):
    """What a server lets its pages write."""

    read_only: bool = False
    """Nothing, whatever the store allows."""
    labels: tuple[str, ...] = ("good", "bad", "hack")
    """Which labels the keys 1 to 9 give, unless a browser has others set up."""

    def refusal(self, store: Path) -> str | None:
        """Why nothing can be written into a store; None if it can."""
        if self.read_only:
            return "this server only reads (--read-only)"
        problem, name = write_problem(store), store.name
        return None if problem is None else f"the store {name!r} can only be read: {problem}"


USUAL = Writing()


def is_write(method: str, path: str) -> bool:
    """Whether a request is one of those that write."""
    return method == "POST" and _PATH.fullmatch(path) is not None


def forgery(headers: Mapping[str, str]) -> str | None:
    """Why a POST may be one that another site's page makes its visitor send; None if it is from a page of ours."""
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return "a page of another site may not write"
    if site is None and headers.get("origin") is None:
        return "a request that writes must say which page sent it (Origin)"
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return "a request that writes is application/json"
    if headers.get(HEADER) != HEADER_VALUE:
        return f"a request that writes has the header {HEADER}: {HEADER_VALUE}"
    return None


async def body_of(request: Request, kind: type[T]) -> T:
    """The body of a request.

    Raises:
        ConfigError: it is too long, or not of this type.
    """
    body = await request.body()  # of a bounded length: see view.security
    if len(body) > MAX_BYTES:
        raise ConfigError(f"a request that writes has at most {MAX_BYTES >> 10} kB")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the body cannot be read: {str(error).replace('$.', '')}") from None


def write_labels(store: Store, writing: Writing, wanted: requests.LabelRequest) -> Written:
    """Give some trajectories a label, or take it back.

    Raises:
        WriteRefused: nothing can be written.
        RolltraceError: as `Store.label`.
    """
    if (why := writing.refusal(store.path)) is not None:
        raise WriteRefused(why, "rolltrace label ID NAME")
    op_id = None if wanted.op_id is None else requests.whole_number(wanted.op_id)
    from rolltrace.query import login_name  # late: see view.stores

    author = wanted.author or login_name()
    for trajectory_id in wanted.trajectory_ids:
        store.label(trajectory_id, wanted.name, wanted.value, author=author, op_id=op_id)
    return Written(len(wanted.trajectory_ids), author)


def write_pass(store: Store, writing: Writing, wanted: requests.PassRequest) -> Passing:
    """Store what pass means in an experiment.

    Raises:
        WriteRefused: nothing can be written.
        RolltraceError: as `Store.set_pass`.
    """
    if (why := writing.refusal(store.path)) is not None:
        raise WriteRefused(why, "rolltrace groups --term NAME --save")
    from rolltrace.query.model.rows import passing  # late: see view.stores

    (meaning,) = store.set_pass(
        project=wanted.project, experiment=wanted.experiment, term=wanted.term, threshold=wanted.threshold
    )
    return passing(meaning)
