"""Which tokenizer an op has, and that looking for it never hurts."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tokenizers import Tokenizer

import rolltrace
from rolltrace.errors import ConfigError
from rolltrace.record import OpEnd
from rolltrace.testing import Recording, recording
from rolltrace.text import fingerprint


class Agent:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    @rolltrace.rollout_trace_op
    def generate(self, prompt_ids: list[int]) -> list[int]:
        return prompt_ids

    @rolltrace.rollout_trace_op
    def outer(self) -> None:
        plain([1])

    @rolltrace.rollout_trace_op
    def rollout(self) -> None:
        with rolltrace.rollout_trace_attr(sample_index=1):
            plain([1])


class HuggingFaceFast:
    def __init__(self, backend: Tokenizer) -> None:
        self.backend_tokenizer = backend

    def decode(self, ids: list[int]) -> str:
        raise AssertionError("nobody decodes in the rollout")


@rolltrace.rollout_trace_op
def plain(prompt_ids: list[int]) -> None: ...


def marks(traced: Recording) -> list[str]:
    return [each.tokenizer for each in traced.records if isinstance(each, OpEnd)]


@pytest.fixture
def on() -> Iterator[Recording]:
    with recording(token2text=True) as made:
        yield made


def test_the_tokenizer_of_the_object_is_found(on: Recording, byte_level: Tokenizer) -> None:
    Agent(tokenizer=byte_level).generate([1])
    assert marks(on) == [fingerprint(byte_level)]


def test_a_fast_tokenizer_of_hugging_face_is_its_backend(on: Recording, byte_level: Tokenizer) -> None:
    Agent(tokenizer=HuggingFaceFast(byte_level)).generate([1])
    assert marks(on) == [fingerprint(byte_level)]


def test_the_tokenizer_of_a_processor_is_found(on: Recording, byte_level: Tokenizer) -> None:
    Agent(processor=Agent(tokenizer=byte_level)).generate([1])
    Agent(tokenizer=None, processor=Agent(tokenizer=byte_level)).generate([1])
    assert marks(on) == [fingerprint(byte_level)] * 2


def test_a_tokenizer_on_the_class_is_found_by_methods_and_class_methods(on: Recording, byte_level: Tokenizer) -> None:
    class Loop(Agent):
        tokenizer = byte_level

        @classmethod
        @rolltrace.rollout_trace_op
        def of_class(cls) -> None: ...

    Loop().generate([1])
    Loop.of_class()
    assert marks(on) == [fingerprint(byte_level)] * 2


def test_an_op_without_one_has_that_of_the_op_around_it(on: Recording, byte_level: Tokenizer) -> None:
    Agent(tokenizer=byte_level).outer()
    Agent(tokenizer=byte_level).rollout()
    assert marks(on) == [fingerprint(byte_level)] * 4


def test_an_op_without_any_has_the_one_given_to_init(byte_level: Tokenizer, metaspace: Tokenizer) -> None:
    with recording(token2text=True, tokenizer=byte_level) as traced:
        plain([1])
        Agent(tokenizer=metaspace).outer()
    assert marks(traced) == [fingerprint(byte_level), fingerprint(metaspace), fingerprint(metaspace)]


def test_no_tokenizer_at_all_is_fine(on: Recording) -> None:
    plain([1])
    Agent().generate([1])
    Agent(tokenizer="gpt2").generate([1])
    assert marks(on) == ["", "", ""]


def test_a_tokenizer_that_changes_is_noticed(on: Recording, byte_level: Tokenizer, metaspace: Tokenizer) -> None:
    agent = Agent(tokenizer=byte_level)
    agent.generate([1])
    agent.tokenizer = metaspace
    agent.generate([1])
    assert marks(on) == [fingerprint(byte_level), fingerprint(metaspace)]


def test_one_that_can_only_decode_is_decoded_in_its_own_process(on: Recording) -> None:
    class Slow:
        def decode(self, ids: list[int]) -> str:
            return "".join(map(chr, ids))

    Agent(tokenizer=Slow()).generate([72, 105])
    on.recorder.tokenizers.texts.wait(30)  # type: ignore[union-attr]
    assert marks(on) == ["own-process"]


def test_an_attribute_that_is_computed_is_asked_for_once(on: Recording, byte_level: Tokenizer) -> None:
    asked = []

    class Loop(Agent):
        @property
        def tokenizer(self) -> Tokenizer:
            asked.append(1)
            return byte_level

    loop = Loop()
    for _ in range(5):
        loop.generate([1])
    assert marks(on) == [fingerprint(byte_level)] * 5
    assert len(asked) == 1


def test_an_attribute_that_raises_is_no_fault_of_the_rollout(on: Recording) -> None:
    class Loop(Agent):
        @property
        def tokenizer(self) -> Tokenizer:
            raise RuntimeError("not loaded")

    assert Loop().generate([1]) == [1]
    assert marks(on) == [""]


def test_an_object_that_refuses_every_attribute_is_no_fault_of_the_rollout(on: Recording) -> None:
    class Closed:
        @rolltrace.rollout_trace_op
        def generate(self) -> int:
            return 1

        def __getattribute__(self, name: str) -> Any:
            if name == "generate":
                return object.__getattribute__(self, name)
            raise RuntimeError(name)

    assert Closed().generate() == 1
    assert marks(on) == [""]


def test_an_object_that_cannot_be_referred_to_weakly_is_looked_at_each_time(
    on: Recording, byte_level: Tokenizer
) -> None:
    class Slotted:
        __slots__ = ("tokenizer",)

        @rolltrace.rollout_trace_op
        def generate(self) -> None: ...

    slotted = Slotted()
    slotted.tokenizer = byte_level
    slotted.generate()
    slotted.generate()
    assert marks(on) == [fingerprint(byte_level)] * 2


def test_the_objects_of_ops_are_not_kept_alive(on: Recording, byte_level: Tokenizer) -> None:
    class Loop(Agent):
        tokenizer = byte_level

    loop = Loop()
    loop.generate([1])
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None


def test_the_result_is_the_very_same_object(on: Recording, byte_level: Tokenizer) -> None:
    ids = [1, 2, 3]
    assert Agent(tokenizer=byte_level).generate(ids) is ids


def test_off_means_that_nobody_looks_and_nothing_is_built(traced: Recording) -> None:
    asked = []

    class Loop(Agent):
        @property
        def tokenizer(self) -> None:
            asked.append(1)

    threads = threading.active_count()
    Loop().generate([1])
    assert asked == []
    assert traced.recorder.tokenizers is None
    assert threading.active_count() == threads
    assert msgspec.msgpack.decode(traced.sink.bodies[-1])[-1] == "", "no tokenizer is named"


def test_another_file_than_a_tokenizer_json_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "tokenizer_config.json"
    other.write_text('{"model_max_length": 4096}')
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json' is no tokenizer\.json"):
        rolltrace.init("p", "e", "rolltrace", store=tmp_path, tokenizer=other)


def test_the_file_is_written_once_and_the_marker_goes(tmp_path: Path, byte_level: Tokenizer) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, tokenizer=byte_level)
    Agent(tokenizer=Tokenizer.from_str(byte_level.to_str())).generate([1])
    rolltrace.shutdown()
    assert [path.name for path in (tmp_path / "tokenizers").iterdir()] == [f"{fingerprint(byte_level)}.json"]


def test_a_tokenizer_that_cannot_be_saved_is_said_once_and_the_rollout_goes_on(
    tmp_path: Path, byte_level: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tokenizers").write_text("in the way")
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, token2text=True)
    for _ in range(3):
        assert Agent(tokenizer=byte_level).generate([1]) == [1]
    assert caplog.text.count("could not be saved") == 1
