"""What a shared file holds: everything that its pages ask for, once, and nothing about anything else."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.errors import ConfigError
from rolltrace.query import Store
from rolltrace.view.archive import Archive
from rolltrace.view.notebook import Page
from tests.shared_pages import SharedPage
from tests.view.stores import EXPERIMENT, PROJECT

Ask = Callable[..., Any]
GROUP = {"project": PROJECT, "experiment": EXPERIMENT, "step": 3, "sample_index": 0, "validate": False}
PAIR = {"project": PROJECT, "experiment": EXPERIMENT, "step": 2, "sample_index": 0, "validate": True}


@pytest.fixture(scope="module")
def group(demo: Store) -> list[str]:
    """The ids of a group of four."""
    return [row["trajectory_id"] for row in demo.trajectories(**GROUP)]


@pytest.fixture(scope="module")
def pair(demo: Store) -> list[str]:
    """The ids of a group of two, where its size does not matter: each rollout makes a page dearer."""
    return [row["trajectory_id"] for row in demo.trajectories(**PAIR)]


@pytest.fixture(scope="module")
def page_of_one(demo_store: Path, group: list[str], tmp_path_factory: pytest.TempPathFactory) -> SharedPage:
    return shared(demo_store, tmp_path_factory.mktemp("shared") / "one.html", group[0])


@pytest.fixture(scope="module")
def viewed(demo: Store, group: list[str]) -> Page:
    """As a cell of a notebook has it."""
    return rolltrace.view(demo.trajectory(group[0]), height=300)


def shared(demo_store: Path, out: Path, *arguments: str) -> SharedPage:
    assert main(["export", "html", str(demo_store), "-o", str(out), *arguments]) == 0
    return SharedPage(out.read_text())


def test_a_trajectory_has_the_answers_that_the_server_gives(
    ask: Ask, group: list[str], page_of_one: SharedPage
) -> None:
    page = page_of_one
    assert (page.about["kind"], page.about["trajectories"]) == ("trajectory", group[:1])
    base = f"trajectory/{group[0]}"
    for path in ("", "/conversation", "/raw"):
        assert page.answers[f"/api/{base}{path}"] == ask(f"{base}{path}")
    assert page.answers[f"/api/{base}/tokens 0"] == ask(f"{base}/tokens", start=0, end=50_000)
    for op in ask(base)["outline"]:
        assert page.answers[f"/api/{base}/op/{op['op_id']}"] == ask(f"{base}/op/{op['op_id']}")


def test_a_file_tells_nothing_about_the_machine_or_other_steps(
    demo_store: Path, group: list[str], page_of_one: SharedPage
) -> None:
    page = page_of_one
    assert page.answers["/api/status"]["store_path"] == demo_store.name
    assert page.answers[f"/api/experiment {PROJECT} {EXPERIMENT}"]["training"]["step"] == [3]
    assert {question.split("/")[3] for question in page.answers if "/trajectory/" in question} == {group[0]}
    assert str(demo_store.parent) not in page.plain


def test_rows_of_one_group_are_a_group_with_every_comparison_of_two(
    demo_store: Path, group: list[str], tmp_path: Path
) -> None:
    place = ["--experiment", EXPERIMENT, "--step", "3", "--sample", "0", "--train"]
    page = shared(demo_store, tmp_path / "group.html", *place)
    assert page.about["kind"] == "group"
    assert page.about["group"] == {"project": PROJECT, "experiment": EXPERIMENT, "step": 3, "sample_index": "0"}
    assert [row["trajectory_id"] for row in page.answers["/api/trajectories"]["rows"]] == group
    (row,) = page.answers["/api/groups"]["rows"]
    assert [cell["trajectory_id"] for cell in row["cells"]] == group
    compared = [question for question in page.answers if question.startswith("/api/compare ")]
    assert len(compared) == 1 + 6


def test_ids_that_were_named_are_a_comparison_whatever_they_are(
    ask: Ask, demo_store: Path, group: list[str], tmp_path: Path
) -> None:
    page = shared(demo_store, tmp_path / "two.html", *group[:2])
    assert (page.about["kind"], page.about["group"]) == ("comparison", None)
    question = f"/api/compare {','.join(sorted(group[:2]))}"
    assert page.answers[question] == ask("compare", ids=",".join(group[:2]))


def test_what_was_cut_is_there_for_whoever_asks_for_more(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path / "store", drain="off", quiet=True)

    @rolltrace.rollout_trace_op(name="generate", kind="llm")
    def generate(messages: list[dict[str, Any]], extra: dict[str, Any]) -> dict[str, Any]:
        return {"role": "assistant", "content": "y" * 9_000}

    numbers = [{"n": at, "text": "z" * 900} for at in range(300)]
    with rolltrace.rollout_trace_attr(0, 0, 0) as made:
        generate([{"role": "user", "content": "x" * 9_000}], {"deep 'key\" é": {"numbers": numbers}})
    rolltrace.shutdown()
    page = shared(tmp_path / "store", tmp_path / "cut.html")
    base = f"/api/trajectory/{made.id}"
    assert [page.answers[f"{base}/message/{at}"]["parts"][0]["text"] for at in (0, 1)] == ["x" * 9_000, "y" * 9_000]
    (head,) = page.answers[base]["outline"]
    branch = f'{base}/op/{head["op_id"]}/branch inputs ["extra","deep \'key\\" é","numbers"]'
    assert page.answers[branch]["value"] == numbers


def test_prompts_that_repeat_what_came_before_are_kept_once() -> None:
    archive, messages = Archive(), []
    for turn in range(100):
        messages.append({"role": "user", "content": f"message {turn} " + "x" * 1_000})
        archive.add(f"op {turn}", {"messages": messages})
    assert len(archive.encoded()) < 200_000


def test_values_that_are_equal_to_python_stay_apart() -> None:
    archive = Archive()
    values = [[1], [1.0], [True], [[]], [{}], [None], ["1"], [[1]]]
    assert archive.add("values", {"values": values}) == {"values": values}
    assert len(archive.encoded()) > 0
    assert len(archive._values) == len(values) + 2


def test_the_server_gives_the_same_file_to_download(client: httpx.Client, pair: list[str]) -> None:
    answer = client.get("/api/share", params={"ids": ",".join(pair)})
    assert answer.status_code == 200
    assert re.fullmatch(
        r'attachment; filename="rolltrace-comparison-\w{8}\.html"', answer.headers["content-disposition"]
    )
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert SharedPage(answer.text).about["trajectories"] == pair
    by_place = {**PAIR, "validate": "true"}
    assert SharedPage(client.get("/api/share", params=by_place).text).about["kind"] == "group"
    refused = client.get("/api/share")
    assert (refused.status_code, "trajectories were chosen" in refused.json()["detail"]) == (400, True)


def test_view_takes_a_trajectory_several_a_comparison_rows_and_a_store(
    demo: Store, demo_store: Path, group: list[str], pair: list[str], viewed: Page
) -> None:
    kinds = {
        "trajectory": (demo.trajectories(where=f"trajectory_id = '{group[0]}'"),),
        "comparison": ([demo.trajectory(each) for each in pair], demo.compare(group[:2])),
        "group": (demo.trajectories(**PAIR), demo.group(2, 0, experiment=EXPERIMENT, validate=True)),
        "store": (demo, demo_store, str(demo_store)),
    }
    assert SharedPage(viewed.html).about["kind"] == "trajectory"
    for kind, values in kinds.items():
        for value in values:
            assert SharedPage(rolltrace.view(value).html).about["kind"] == kind


def test_what_is_viewed_can_be_saved(viewed: Page, group: list[str], tmp_path: Path) -> None:
    viewed.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == viewed.html
    assert f"{group[0][:8]}: a page of " in repr(viewed)


def test_a_notebook_gets_a_frame_that_reaches_nothing_around_it(viewed: Page) -> None:
    output = viewed._repr_html_()
    assert output.startswith("<iframe ")
    assert 'sandbox="allow-scripts allow-downloads"' in output
    assert 'height="300"' in output
    assert "<script" not in output, "all of it is inside the attribute"
    assert "<details>" in output
    assert len(output) < 500_000


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda store: 3, "not int"),
        (lambda store: [store], "not list"),
        (lambda store: [], "no trajectory was chosen"),
        (lambda store: store.experiments(), "no trajectories: they have the columns project"),
        (lambda store: store.trajectories(), "one group of at most 64"),
    ],
)
def test_what_cannot_be_viewed_is_said(demo: Store, value: Callable[[Store], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rolltrace.view(value(demo), store=demo.path)


def test_a_trajectory_without_a_store_asks_for_one(demo: Store, group: list[str]) -> None:
    from dataclasses import replace

    alone = replace(demo.trajectory(group[0]))
    with pytest.raises(ConfigError, match="store=FOLDER"):
        rolltrace.view(alone)
    assert SharedPage(rolltrace.view(alone, store=demo.path).html).about["trajectories"] == group[:1]
