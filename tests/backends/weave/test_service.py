from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from rolltrace.backends.backend import RefusedRequest
from rolltrace.backends.weave.service import MissingEndpoint, Project, WeaveService
from rolltrace.errors import BackendError, OutageError

KEY = "0123456789abcdef"
BASIC = "Basic " + base64.b64encode(f"api:{KEY}".encode()).decode()


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("API_KEY", "ENTITY", "BASE_URL", "PUBLIC_BASE_URL", "CONFIG_DIR"):
        monkeypatch.delenv(f"WANDB_{name}", raising=False)
    monkeypatch.delenv("WF_TRACE_SERVER_URL", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def weave(service: Any, monkeypatch: pytest.MonkeyPatch) -> WeaveService:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_BASE_URL", service.url)
    return WeaveService()


def test_without_a_key_it_says_what_to_set() -> None:
    with pytest.raises(BackendError, match=r"API key for https://api\.wandb\.ai: set WANDB_API_KEY .*'wandb login'"):
        WeaveService()


def test_the_key_and_the_host_that_wandb_login_has_left_are_used(service: Any, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(f"machine {service.url.removeprefix('http://')} login user password {KEY}\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / ".config/wandb").mkdir(parents=True)
    (tmp_path / ".config/wandb/settings").write_text(f"[default]\nbase_url = {service.url}\n")
    service.answers["/traces/obj/create"] = lambda body: (200, {"digest": "d"})
    assert WeaveService().post("/obj/create", {}) == [{"digest": "d"}]
    assert service.asked[0][1]["Authorization"] == BASIC


def test_damaged_settings_of_wandb_are_told(tmp_path: Path) -> None:
    (tmp_path / ".config/wandb").mkdir(parents=True)
    (tmp_path / ".config/wandb/settings").write_text("base_url https\n")
    with pytest.raises(BackendError, match=r"cannot be read: .* Set WANDB_BASE_URL"):
        WeaveService()


def test_the_trace_service_may_be_elsewhere(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WF_TRACE_SERVER_URL", f"{service.url}/elsewhere/")
    service.answers["/elsewhere/obj/create"] = lambda body: (200, {"digest": "d"})
    assert WeaveService().post("/obj/create", {}) == [{"digest": "d"}]


def test_a_new_project_is_made_for_the_accounts_own_entity(service: Any, weave: WeaveService) -> None:
    def graphql(body: bytes) -> tuple[int, Any]:
        asked = json.loads(body)
        if "viewer" in asked["query"]:
            return 200, {"data": {"viewer": {"defaultEntity": {"name": "me"}}}}
        if "upsertModel" in asked["query"]:
            return 200, {"data": {"upsertModel": {"model": {"name": asked["variables"]["name"]}}}}
        return 200, {"data": {"project": None}}

    service.answers["/graphql"] = graphql
    assert weave.project("maths: part 1/2/3") == Project("me", "maths- part 1-2-3")
    count = len(service.asked)
    assert weave.project("maths: part 1/2/3") == Project("me", "maths- part 1-2-3")
    assert len(service.asked) == count == 3


def test_the_entity_is_that_of_the_environment_or_of_the_name(
    service: Any, weave: WeaveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.answers["/graphql"] = lambda body: (
        200,
        {"data": {"project": {"name": json.loads(body)["variables"]["name"]}}},
    )
    monkeypatch.setenv("WANDB_ENTITY", "team")
    assert weave.project("maths").id == "team/maths"
    assert weave.project("others/maths").id == "others/maths"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"data": {"viewer": None}}, "does not accept the key in WANDB_API_KEY"),
        ({"data": {"viewer": {"defaultEntity": None}}}, "set WANDB_ENTITY"),
        ({"errors": [{"message": "permission denied"}]}, "permission denied"),
    ],
)
def test_an_account_that_cannot_be_used_is_explained(service: Any, weave: WeaveService, answer: Any, said: str) -> None:
    service.answers["/graphql"] = lambda body: (200, answer)
    with pytest.raises(BackendError, match=said):
        weave.project("maths")


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (401, BackendError, "401: .*check WANDB_API_KEY"),
        (403, BackendError, "403: .*check WANDB_API_KEY"),
        (404, MissingEndpoint, "404: .*check WANDB_BASE_URL"),
        (413, RefusedRequest, "413: .*too much"),
        (422, RefusedRequest, "422: .*too much"),
        (429, OutageError, "429: .*too much"),
        (500, OutageError, "500: .*too much"),
    ],
)
def test_what_an_answer_means(service: Any, weave: WeaveService, status: int, kind: type[Exception], said: str) -> None:
    service.answers["/traces/v2/me/maths/calls/complete"] = lambda body: (status, {"detail": "too much"})
    with pytest.raises(kind, match=said) as caught:
        weave.add_calls(Project("me", "maths"), [b"{}"])
    assert type(caught.value) is kind
    assert KEY not in str(caught.value)


def test_the_service_says_how_long_it_wants_to_be_left_alone(service: Any, weave: WeaveService) -> None:
    service.answers["/traces/obj/create"] = lambda body: (429, {"Retry-After": "17"})
    with pytest.raises(OutageError) as caught:
        weave.post("/obj/create", {})
    assert caught.value.retry_after_sec == 17.0


def test_a_refused_question_is_a_matter_for_people(service: Any, weave: WeaveService) -> None:
    service.answers["/traces/feedback/query"] = lambda body: (422, {"detail": "no such field"})
    with pytest.raises(BackendError, match="no such field"):
        weave.post("/feedback/query", {})


def test_a_service_that_is_not_there_is_an_outage(service: Any, weave: WeaveService) -> None:
    service.close()
    with pytest.raises(OutageError, match="cannot be reached"):
        weave.post("/obj/create", {})


def test_a_redirect_is_not_followed_so_that_the_key_stays_with_its_host(service: Any, weave: WeaveService) -> None:
    service.answers["/traces/obj/create"] = lambda body: (308, {"Location": "/elsewhere"})
    service.answers["/elsewhere"] = lambda body: (200, {"digest": "d"})
    with pytest.raises(BackendError, match=r"redirect to .*/elsewhere; set WANDB_BASE_URL"):
        weave.post("/obj/create", {})
    assert len(service.asked) == 1


def test_a_file_is_sent_as_a_form(service: Any, weave: WeaveService) -> None:
    service.answers["/traces/file/create"] = lambda body: (200, {"digest": "d"})
    assert weave.add_file(Project("me", "maths"), "obj.py", b"def op():\n    ...\n") == "d"
    _, headers, body = service.asked[0]
    assert headers["Content-Type"].startswith("multipart/form-data; boundary=")
    assert b'filename="obj.py"' in body
    assert b"\r\n\r\ndef op():\n    ...\n\r\n--" in body
