"""Weave's own SQLite trace server behind HTTP, as the service has it: run by the environment that has weave 0.52.42.

    python server.py DATABASE PORT KEY BATCHES_TO_LIVE

That is the last release with the server in it. Here are only the routes, the key and the size limit, which Weave does
not publish. W&B itself, which knows accounts and projects, is a stand-in that answers three questions.
"""

from __future__ import annotations

import base64
import importlib.abc
import importlib.machinery
import itertools
import os
import sys
import types
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

os.environ["WANDB_ERROR_REPORTING"] = "false"


class _Nothing(types.ModuleType):
    """Stands for ddtrace and datadog, which the server reports to and which need not be there."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Tracer() if name == "tracer" else lambda *args, **kwargs: _Tracer()


class _Tracer:
    def wrap(self, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        return lambda function: function

    @contextmanager
    def trace(self, *args: Any, **kwargs: Any) -> Any:
        yield self

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


class _NothingFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        found = name.partition(".")[0] in ("ddtrace", "datadog")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if found else None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Nothing(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.insert(0, _NothingFinder())

import uvicorn  # noqa: E402
from fastapi import FastAPI, Request, Response  # noqa: E402
from fastapi.responses import JSONResponse  # noqa: E402
from pydantic import BaseModel, ValidationError  # noqa: E402
from weave.trace_server import trace_server_interface as tsi  # noqa: E402
from weave.trace_server.errors import ErrorRegistry  # noqa: E402
from weave.trace_server.external_to_internal_trace_server_adapter import (  # noqa: E402
    ExternalTraceServer,
    IdConverter,
)
from weave.trace_server.sqlite_trace_server import SqliteTraceServer  # noqa: E402

DATABASE, PORT, KEY = sys.argv[1], int(sys.argv[2]), sys.argv[3]
BATCHES_TO_LIVE = itertools.count(int(sys.argv[4]), -1)
MOST_REQUEST_BYTES = 32 << 20
USER = "somebody"


def _hide(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _show(text: str) -> str:
    return base64.b64decode(text).decode()


class _Ids(IdConverter):
    ext_to_int_project_id = ext_to_int_run_id = ext_to_int_user_id = staticmethod(_hide)
    int_to_ext_project_id = int_to_ext_run_id = int_to_ext_user_id = staticmethod(_show)


_inner = SqliteTraceServer(DATABASE)
_inner.setup_tables()
server = ExternalTraceServer(_inner, _Ids())
errors = ErrorRegistry()
app = FastAPI()
projects: set[str] = set()


@app.middleware("http")
async def check(request: Request, call_next: Any) -> Response:
    open_to_all = request.url.path in ("/server_info", "/health")
    if not open_to_all and request.headers.get("authorization") != f"Basic {_hide(f'api:{KEY}')}":
        return JSONResponse({"detail": "the API key is not valid"}, status_code=401)
    if int(request.headers.get("content-length") or 0) > MOST_REQUEST_BYTES:
        return JSONResponse({"reason": "Request too large"}, status_code=413)
    try:
        return await call_next(request)
    except ValidationError as fault:
        return JSONResponse({"detail": fault.errors(include_url=False, include_context=False)}, status_code=422)
    except Exception as fault:
        answer = errors.handle_exception(fault)
        return JSONResponse({**answer.message, "fault": repr(fault)[:500]}, status_code=answer.status_code)


@app.get("/server_info")
def server_info() -> Any:
    return {"min_required_weave_python_version": "0.0.1", "trace_server_version": "99.0.0"}


@app.get("/health")
def health() -> Any:
    return {"ok": True}


@app.post("/graphql")
async def wandb(request: Request) -> Any:
    """W&B: who am I, is there a project, make one."""
    asked = await request.json()
    variables = asked.get("variables") or {}
    name = variables.get("name")
    if "upsertModel" in asked["query"]:
        projects.add(name)
        return {"data": {"upsertModel": {"model": {"name": name}}}}
    viewer = {"username": USER, "defaultEntity": {"name": USER}, "id": "1"}
    return {"data": {"viewer": viewer, "project": {"name": name} if name in projects else None}}


def _read(kind: type[BaseModel], body: dict[str, Any]) -> Any:
    """A newer client may say more than this server knows."""
    fields = kind.model_fields
    given = {name: value for name, value in body.items() if name in fields}
    return kind.model_validate({**given, **({"wb_user_id": USER} if "wb_user_id" in fields else {})})


def _json(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")


def _route(path: str, method: str, kind: type[BaseModel]) -> None:
    async def handle(request: Request) -> Response:
        return _json(getattr(server, method)(_read(kind, await request.json())))

    app.add_api_route(path, handle, methods=["POST"])


for _path, _method, _kind in (
    ("/calls/query_stats", "calls_query_stats", tsi.CallsQueryStatsReq),
    ("/call/read", "call_read", tsi.CallReadReq),
    ("/calls/delete", "calls_delete", tsi.CallsDeleteReq),
    ("/obj/create", "obj_create", tsi.ObjCreateReq),
    ("/obj/read", "obj_read", tsi.ObjReadReq),
    ("/objs/query", "objs_query", tsi.ObjQueryReq),
    ("/refs/read_batch", "refs_read_batch", tsi.RefsReadBatchReq),
    ("/feedback/query", "feedback_query", tsi.FeedbackQueryReq),
    ("/feedback/purge", "feedback_purge", tsi.FeedbackPurgeReq),
    ("/feedback/create", "feedback_create", tsi.FeedbackCreateReq),
):
    _route(_path, _method, _kind)


@app.post("/v2/{entity}/{project}/calls/complete")
async def calls_complete(entity: str, project: str, request: Request) -> Response:
    batch = (await request.json())["batch"]
    if any(call["project_id"] != f"{entity}/{project}" for call in batch):
        raise ValueError("a call of another project")
    asked = tsi.CallsUpsertCompleteReq(batch=[{**each, "wb_user_id": USER} for each in batch])
    answer = server.calls_complete(asked)
    if next(BATCHES_TO_LIVE) == 1:
        os._exit(9)
    return _json(answer)


@app.post("/feedback/batch/create")
async def feedback_batch_create(request: Request) -> Response:
    batch = [_read(tsi.FeedbackCreateReq, each) for each in (await request.json())["batch"]]
    return _json(server.feedback_create_batch(tsi.FeedbackCreateBatchReq(batch=batch)))


@app.post("/calls/stream_query")
async def calls_stream_query(request: Request) -> Response:
    calls = server.calls_query_stream(_read(tsi.CallsQueryReq, await request.json()))
    return Response("".join(call.model_dump_json() + "\n" for call in calls), media_type="application/jsonl")


@app.post("/file/create")
async def file_create(request: Request) -> Response:
    form = await request.form()
    file: Any = form["file"]
    asked = tsi.FileCreateReq(project_id=str(form["project_id"]), name=file.filename, content=await file.read())
    return _json(server.file_create(asked))


@app.post("/file/content")
async def file_content(request: Request) -> Response:
    return Response(server.file_content_read(_read(tsi.FileContentReadReq, await request.json())).content)


uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning")
