"""What went wrong with object storage, in words: whether waiting helps, or somebody has to do something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rolltrace.errors import BackendError, OutageError
from rolltrace.lake.address import LakeAddress

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CODE_AND_MESSAGE = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_LONGEST = 400
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_REFUSED = (
    "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
    "AuthenticationFailed", "403 Forbidden", "401 Unauthorized",
)  # fmt: skip
_NO_CREDENTIALS = ("CredentialsNotLoaded", "no providers in chain", "169.254.169.254", "metadata.google.internal")
_NO_CONDITIONS = ("NotImplemented", "501 Not Implemented")


class PartGone(OutageError):
    """A file that a table names is not there, or is not what was put there."""


def plain_text(fault: BaseException) -> str:
    """What a fault says, in a line: without colours, and of an answer in XML what is for people."""
    text = _COLOURS.sub("", str(fault))
    match = _CODE_AND_MESSAGE.search(text)
    if match is not None:
        return f"{match[1]}: {match[2] or ''}".strip(": ")
    return (" ".join(text.replace("↳", " ").split()) or type(fault).__name__)[:_LONGEST]


@contextmanager
def translating(address: LakeAddress, doing: str) -> Iterator[None]:
    """Turn what deltalake raises in this block into an error of ours.

    Raises:
        BackendError: somebody has to do something: no such bucket, no credentials, or wrong ones.
        OutageError: anything else; trying again later may help.
    """
    from deltalake.exceptions import DeltaError
    from obstore.exceptions import BaseError

    try:
        yield
    except (DeltaError, BaseError, OSError, ValueError) as fault:
        if isinstance(fault, (BackendError, OutageError)):
            raise
        text, everything = plain_text(fault), str(fault)
        where = f"the lake {address.url!r}"
        if any(word in everything for word in _NO_BUCKET):
            raise BackendError(
                f"{where}: there is no such bucket, or it is in another region; create it first"
            ) from fault
        if any(word in everything for word in _NO_CREDENTIALS):
            raise BackendError(
                f"{where}: there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or "
                "what else your storage needs (docs/howto/lake.md)"
            ) from fault
        if any(word in everything for word in _REFUSED):
            raise BackendError(f"{where}: the credentials were refused ({text})") from fault
        if any(word in everything for word in _NO_CONDITIONS):
            raise BackendError(
                f"{where}: this storage cannot put a file only if there is none (If-None-Match), which concurrent "
                f"writers need ({text}); see docs/howto/lake.md"
            ) from fault
        raise OutageError(f"{where}: {doing} failed: {text}") from fault
