"""`rolltrace proxy`: record the model calls of agents that cannot be changed."""

from __future__ import annotations

import argparse
import os
from typing import Any

from rolltrace.errors import ConfigError

_PORT = 7656


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "proxy",
        help="record the model calls of agents that cannot be changed",
        description="A reverse proxy for the protocols of OpenAI, Anthropic and Gemini. Bytes pass as they come, both "
        "ways; a copy becomes a trajectory for each agent. An agent is pointed at it by its base URL, which "
        "rolltrace.proxied_env(trajectory) makes for a trajectory of yours. When it listens on more than this "
        "machine's own address, it requires a token, which is part of the printed address.",
        epilog="""examples:
  rolltrace proxy --upstream https://api.anthropic.com
  ANTHROPIC_BASE_URL=http://127.0.0.1:7656 claude -p "what is 17 + 25?"
  rolltrace proxy --upstream http://127.0.0.1:8000 --enrich  # token ids too""",
    )
    parser.add_argument("--upstream", required=True, metavar="URL", help="the server that answers")
    parser.add_argument("--port", type=int, help="port to listen on (default: 7656, or any free one)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--token", help="token to require (default: none on 127.0.0.1, else a random one)")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="also accept this host name")
    parser.add_argument(
        "--key-from", metavar="VARIABLE",
        help="environment variable with the key of the upstream, for agents that show none or their context instead",
    )  # fmt: skip
    parser.add_argument(
        "--enrich", action="store_true",
        help="ask the upstream (vLLM, SGLang) for token ids, logprobs and usage too; agents do not see them",
    )  # fmt: skip
    parser.add_argument("--project", metavar="P", help="what the work is called")
    parser.add_argument("--experiment", metavar="E", help="what this experiment is called (default: proxy)")
    parser.add_argument("--store", metavar="S", help="the store folder; ROLLTRACE_STORE or ~/.rolltrace if not given")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    import rolltrace
    from rolltrace.cli.view import token_of
    from rolltrace.proxy import VARIABLE, Proxy, Upstream, serve
    from rolltrace.settings import variable_of
    from rolltrace.view import access_for, listen

    token = token_of(options)
    upstream = Upstream(options.upstream)
    key = _key(options.key_from)
    experiment = options.experiment or os.environ.get(variable_of("experiment_name")) or "proxy"
    rolltrace.init(options.project, experiment, "rolltrace", store=options.store, quiet=True)
    listening = listen(options.host, options.port, usual=_PORT)
    address = listening.url().rstrip("/") + (f"/k/{token}" if token else "")
    access = access_for(options.host, listening.port, token, options.allow_host)
    print(
        f"rolltrace proxy of {options.upstream}\n  {address}\n"
        f"point agents at it: ANTHROPIC_BASE_URL={address}  OPENAI_BASE_URL={address}/v1  "
        f"GOOGLE_GEMINI_BASE_URL={address}\n"
        f"or for trajectories of yours: {VARIABLE}={address} and rolltrace.proxied_env(trajectory)\n"
        "press Ctrl-C to stop",
        flush=True,
    )
    try:
        serve(Proxy(upstream, access, key=key, enrich=options.enrich), listening)
    except KeyboardInterrupt:  # the usual end
        pass
    rolltrace.shutdown()
    return 0


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise ConfigError(f"--key-from names the environment variable {variable!r}, which is not set")
    return key
