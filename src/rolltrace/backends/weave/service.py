"""Weave's service over HTTP: who we are, where it is, and what its answers mean.

Its REST endpoints and nothing of its client: that would bring threads, global state and 350 MB of packages for what are
seven requests. The settings are those of its client.
"""

from __future__ import annotations

import base64
import configparser
import json
import netrc
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from rolltrace.backends.backend import RefusedRequest
from rolltrace.backends.http import ErrorAnswer, HttpClient
from rolltrace.errors import BackendError

_TIMEOUT_SEC = 60.0
_REFUSED = (400, 409, 413, 422)
"""The status of a request that the service will never accept."""
_ENTITY = "query { viewer { username defaultEntity { name } } }"
_PROJECT = "query ($entity: String!, $name: String!) { project(name: $name, entityName: $entity) { name } }"
_NEW_PROJECT = (
    "mutation ($entity: String!, $name: String!) "
    "{ upsertModel(input: { name: $name, entityName: $entity }) { model { name } } }"
)


class MissingEndpoint(BackendError):
    """This service has no such endpoint. One that the traces do not need costs what it is for, and nothing else."""


class Project(NamedTuple):
    """Where calls go."""

    entity: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.entity}/{self.name}"

    def reference(self, kind: str, name: str) -> str:
        """How Weave names a thing of this project."""
        return f"weave:///{self.id}/{kind}/{name}"


class WeaveService:
    """One account. Made from the environment."""

    def __init__(self) -> None:
        base = os.environ.get("WANDB_BASE_URL") or _written_base_url()
        self._base_url = base.rstrip("/")
        public = (os.environ.get("WANDB_PUBLIC_BASE_URL") or self._base_url).rstrip("/")
        self._app_url = "https://wandb.ai" if public == "https://api.wandb.ai" else public
        hosted = public == "https://api.wandb.ai"
        default = "https://trace.wandb.ai" if hosted else f"{public}/traces"
        self._trace_url = (os.environ.get("WF_TRACE_SERVER_URL") or default).rstrip("/")
        key = os.environ.get("WANDB_API_KEY") or _netrc_key(self._base_url)
        if not key:
            raise BackendError(
                f"Weave needs an API key for {self._base_url}: set WANDB_API_KEY (https://wandb.ai/authorize shows it) "
                "or run 'wandb login'"
            )
        self._authorization = "Basic " + base64.b64encode(f"api:{key}".encode()).decode()
        self._client = HttpClient(_TIMEOUT_SEC, certificate_setting="SSL_CERT_FILE")
        self._projects: dict[str, Project] = {}
        self._takes_batches_of_feedback = True

    def page(self, project: Project) -> str:
        """Where W&B shows a project."""
        return f"{self._app_url}/{quote(project.entity, safe='')}/{quote(project.name, safe='')}"

    def project(self, name: str) -> Project:
        """The W&B project of this name, made if it does not exist yet.

        Its entity is WANDB_ENTITY, or the account's default; a name `entity/project` says it itself.
        """
        if name not in self._projects:
            entity, _, own = name.rpartition("/") if name.count("/") == 1 else ("", "", name)
            entity = entity or os.environ.get("WANDB_ENTITY") or self._default_entity()
            own = re.sub(r"[/\\#?%:]", "-", own)[:128] or "rolltrace"  # W&B takes no others
            variables = {"entity": entity, "name": own}
            project = self._graphql(_PROJECT, variables).get("project")
            if project is None:
                answer = self._graphql(_NEW_PROJECT, variables).get("upsertModel") or {}
                project = answer.get("model")
            if project is None:
                raise BackendError(f"W&B made no project {own!r} for {entity!r}: set WANDB_ENTITY to a team of yours")
            self._projects[name] = Project(entity, project["name"])
        return self._projects[name]

    def _default_entity(self) -> str:
        viewer = self._graphql(_ENTITY, {}).get("viewer")
        if viewer is None:
            raise BackendError(f"{self._base_url} does not accept the key in WANDB_API_KEY")
        entity = (viewer.get("defaultEntity") or {}).get("name")
        if not entity:
            raise BackendError("the W&B account has no default entity: set WANDB_ENTITY to your user or team name")
        return str(entity)

    def _graphql(self, query: str, variables: dict[str, str]) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        answer = json.loads(self._ask(f"{self._base_url}/graphql", body))
        if answer.get("errors"):
            messages = "; ".join(str(error.get("message")) for error in answer["errors"])
            raise BackendError(f"W&B refused {variables or 'the key'}: {messages}")
        return answer.get("data") or {}

    def add_calls(self, project: Project, bodies: Sequence[bytes]) -> None:
        """Add calls, each given as JSON."""
        path = f"/v2/{quote(project.entity, safe='')}/{quote(project.name, safe='')}/calls/complete"
        self._send(self._trace_url + path, b'{"batch":[' + b",".join(bodies) + b"]}")

    def add_feedback(self, bodies: Sequence[bytes]) -> None:
        """Add feedback to calls, each given as JSON. Raises as `add_calls` does.

        A service of one's own may be too old to take several at once: those are refused then, and one alone is taken.
        """
        if self._takes_batches_of_feedback:
            try:
                self._send(f"{self._trace_url}/feedback/batch/create", b'{"batch":[' + b",".join(bodies) + b"]}")
                return
            except MissingEndpoint:
                self._takes_batches_of_feedback = False
        if len(bodies) > 1:
            raise RefusedRequest("this Weave takes feedback one by one")
        for body in bodies:
            self._send(f"{self._trace_url}/feedback/create", body)

    def post(self, path: str, body: dict[str, Any]) -> list[Any]:
        """Ask an endpoint of the trace service; gives the lines of its answer."""
        answer = self._ask(self._trace_url + path, json.dumps(body).encode())
        return [json.loads(line) for line in answer.splitlines() if line.strip()]

    def add_file(self, project: Project, name: str, content: bytes) -> str:
        """Keep a file; gives its digest."""
        mark = "rolltrace-d9b2f0a1c3e5"
        body = (
            f'--{mark}\r\nContent-Disposition: form-data; name="project_id"\r\n\r\n{project.id}\r\n'
            f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode() + content + f"\r\n--{mark}--\r\n".encode()  # fmt: skip
        answer = self._ask(f"{self._trace_url}/file/create", body, f"multipart/form-data; boundary={mark}")
        return str(json.loads(answer)["digest"])

    def _ask(self, url: str, body: bytes, content_type: str = "application/json") -> bytes:
        """As `_send`, for what holds nothing of the user's: if that is refused, we do not understand each other."""
        try:
            return self._send(url, body, content_type)
        except RefusedRequest as error:
            raise BackendError(f"{error}; is this a version of Weave that rolltrace supports?") from error

    def _send(self, url: str, body: bytes, content_type: str = "application/json") -> bytes:
        try:
            return self._client.post(url, body, content_type, {"Authorization": self._authorization})
        except ErrorAnswer as answer:
            raise _problem(answer) from None


def _problem(answer: ErrorAnswer) -> Exception:
    if answer.status in (401, 403):
        return BackendError(f"Weave: {answer}; check WANDB_API_KEY, and that it may write to the project")
    if answer.status in (404, 405):
        return MissingEndpoint(f"Weave: {answer}; check WANDB_BASE_URL, WF_TRACE_SERVER_URL")
    if 300 <= answer.status < 400:
        return BackendError(f"Weave: {answer}, a redirect to {answer.location}; set WANDB_BASE_URL to where it is")
    return (
        RefusedRequest(f"Weave answered {answer.status}: {answer.text}")
        if answer.status in _REFUSED
        else answer.as_outage()
    )


def _written_base_url() -> str:
    """What `wandb login --host` has left. Not what a file in the working folder says: the key goes there."""
    folder = os.environ.get("WANDB_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".config", "wandb")
    written = configparser.RawConfigParser()
    try:
        written.read(os.path.join(folder, "settings"))
    except configparser.Error as error:
        why = str(error).splitlines()[0]
        raise BackendError(f"the settings of wandb in {folder!r} cannot be read: {why} Set WANDB_BASE_URL") from None
    return written.get("default", "base_url", fallback="https://api.wandb.ai")


def _netrc_key(url: str) -> str | None:
    """What `wandb login` has left."""
    for name in ("~/.netrc", "~/_netrc"):
        path = Path(name).expanduser()
        try:
            login = netrc.netrc(path).authenticators(urlsplit(url).netloc) if path.exists() else None
        except (OSError, netrc.NetrcParseError):
            continue
        if login:
            return login[2]
    return None
