"""Every exception rolltrace raises.

    RolltraceError
    ├── ConfigError (ValueError)        a setting, argument or environment variable is wrong
    │   └── BackendError                a backend that is not installed, or cannot work until somebody does something
    ├── MissingExtraError (ImportError) an optional package is not installed
    ├── ContextError (ValueError)       a context string that cannot be understood
    ├── OutageError (ConnectionError)   a backend that does not take anything at the moment
    ├── QueryError (ValueError)         a question that cannot be answered
    │   ├── FilterError                 a filter that cannot be understood
    │   ├── NotFoundError (LookupError) nothing has this id or name
    │   └── StoppedError                a question that took too long, or that nobody waits for any more
    └── StoreError (OSError)            the store folder cannot be used
        └── FormatError                 a file of the store is damaged or written by a newer version

and two warnings: IncompleteWarning (UserWarning), an answer lacks what could not be read; UnknownNameWarning
(UserWarning), a filter names something that the store does not have.

Each one takes only its message, so that Ray and multiprocessing can carry it to another process.
Inside a traced call none of these reaches the caller: see `_guard`.
"""


class RolltraceError(Exception):
    """Base of all errors raised by rolltrace."""


class ConfigError(RolltraceError, ValueError):
    """A setting is wrong; the message names it, the value seen, and what to write instead."""


class BackendError(ConfigError):
    """A backend is not installed, or cannot work until somebody does something: a wrong key, a missing setting."""


class MissingExtraError(RolltraceError, ImportError):
    """Something needs a package that is not installed; the message holds the install line."""


class ContextError(RolltraceError, ValueError):
    """A string given to `use_context` was not made by `current_context`."""


class OutageError(RolltraceError, ConnectionError):
    """A backend does not take anything at the moment; what there is to send waits."""

    retry_after_sec: float | None = None
    """How long the vendor asked to be left alone."""


class QueryError(RolltraceError, ValueError):
    """A question that cannot be answered: SQL that is wrong or not allowed, an unknown id or column."""


class FilterError(QueryError):
    """A filter cannot be understood; the message shows the place and what to write instead."""

    position: int = 0
    """Index of the character in the filter at which it went wrong."""
    length: int = 1
    """How many characters from there on are wrong."""


class NotFoundError(QueryError, LookupError):
    """Nothing in the store has this id or name, or not any more."""


class StoppedError(QueryError):
    """A question was stopped before it had an answer: see `rolltrace.query.Limit`."""


class StoreError(RolltraceError, OSError):
    """The store folder cannot be created, read or written."""


class FormatError(StoreError):
    """A file is not one of ours, is damaged in its header, or comes from a newer rolltrace."""


class IncompleteWarning(UserWarning):
    """An answer lacks something that the store has and that could not be read; `Result.incomplete` says what."""


class UnknownNameWarning(UserWarning):
    """A filter asks about a term, score, label or tag that nothing in the store has; most likely it is misspelt."""
