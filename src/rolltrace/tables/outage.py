"""Errors of object storage and of Delta tables in plain words: whether waiting helps, or somebody has to act."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rolltrace._address import StoreAddress
from rolltrace.errors import BackendError, OutageError, RolltraceError

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CODE_AND_MESSAGE = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_MAX_CHARS = 400
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_REFUSED = (
    "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
    "AuthenticationFailed", "403 Forbidden", "401 Unauthorized",
)  # fmt: skip
_NO_CREDENTIALS = ("CredentialsNotLoaded", "no providers in chain", "169.254.169.254", "metadata.google.internal")
_NO_CONDITIONS = ("NotImplemented", "501 Not Implemented")


def describe_error(error: BaseException) -> str:
    """What an error says, in a line: without colours, and of an answer in XML what is for people."""
    text = _COLOURS.sub("", str(error))
    match = _CODE_AND_MESSAGE.search(text)
    if match is not None:
        return f"{match[1]}: {match[2] or ''}".strip(": ")
    return (" ".join(text.replace("↳", " ").split()) or type(error).__name__)[:_MAX_CHARS]


@contextmanager
def translate_errors(address: StoreAddress, doing: str) -> Iterator[None]:
    """Turn what deltalake raises in this block into an error of ours.

    Raises:
        BackendError: somebody has to act: no such bucket, no credentials, or wrong ones.
        OutageError: anything else; trying again later may help.
    """
    from deltalake.exceptions import DeltaError

    try:
        yield
    except RolltraceError:
        raise
    except (DeltaError, OSError, ValueError) as error:
        text, everything = describe_error(error), str(error)
        where = f"the store {address.url!r}"
        if any(word in everything for word in _NO_BUCKET):
            raise BackendError(
                f"{where}: there is no such bucket, or it is in another region; create it first"
            ) from error
        if any(word in everything for word in _NO_CREDENTIALS):
            raise BackendError(
                f"{where}: there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or "
                "what else your storage needs"
            ) from error
        if any(word in everything for word in _REFUSED):
            raise BackendError(f"{where}: the credentials were refused ({text})") from error
        if any(word in everything for word in _NO_CONDITIONS):
            raise BackendError(
                f"{where}: this storage cannot create a file only if there is none (If-None-Match), which concurrent "
                f"writers need ({text})"
            ) from error
        raise OutageError(f"{where}: {doing} failed: {text}") from error
