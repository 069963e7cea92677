"""Which instruments there are: ours and those of other packages, by entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

from rolltrace.errors import ConfigError, MissingExtraError
from rolltrace.integrations import IN_USE

GROUP = "rolltrace.instruments"


def instrument(*names: str) -> None:
    """Record every model call that these packages make from now on: `rolltrace.instrument("openai", "anthropic")`.

    Without names: of all packages that are installed and that there is an instrument for. Calls are recorded while
    tracing is on (`rolltrace.init`), in the trajectory that they are made in. docs/howto/sdk.md.

    Args:
        names: openai, anthropic, litellm, langchain, openai-agents, or what other packages bring.

    Raises:
        ConfigError: there is no such instrument.
        MissingExtraError: the package is not installed.
    """
    for name, entry in _named(names).items():
        wanted = entry.load()
        if find_spec(wanted.package) is not None:
            wanted.install()
        elif names:
            raise MissingExtraError(f"{name} cannot be traced: no package {wanted.package!r}; try: pip install {name}")


def uninstrument(*names: str) -> None:
    """Take back what `instrument` changed: the packages have their own objects again. Without names: all of it.

    Raises:
        ConfigError: there is no such instrument.
    """
    for each in [entry.load() for entry in _named(names).values()] if names else list(IN_USE):
        each.uninstall()


def _named(names: tuple[str, ...]) -> dict[str, EntryPoint]:
    """The instruments of these names, or all."""
    instruments = {each.name: each for each in entry_points(group=GROUP)}
    for name in names:
        if name not in instruments:
            raise ConfigError(f"no instrument {name!r}; there are: {', '.join(sorted(instruments)) or 'none'}")
    return {name: instruments[name] for name in names or sorted(instruments)}
