"""Every test starts with tracing off, no settings in the environment, and internal errors raised."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import rolltrace
from rolltrace import _announce, _guard
from rolltrace.testing import Recording, recording
from tests.nightly import NIGHTLY, nightly
from tests.power_cut import power  # noqa: F401 - a fixture, with its own file

settings.register_profile("rolltrace", max_examples=nightly(2000, 100), deadline=None)
settings.load_profile("rolltrace")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three more than there are cores: many tests wait, for a disk or for another process."""
    return (os.cpu_count() or 1) + 3


@pytest.fixture(autouse=True, scope="session")
def _environment() -> Iterator[None]:
    """Of the whole session, because the fixtures of a module start processes too, before any fixture of a test."""
    with pytest.MonkeyPatch.context() as environment:
        for name in os.environ:
            if name.startswith("ROLLTRACE_"):
                environment.delenv(name)
        environment.setenv("ROLLTRACE_STRICT", "1")
        environment.setenv("ROLLTRACE_DRAIN", "off")  # most tests read what is in the journal
        environment.setenv("ROLLTRACE_RUN", "test")  # all processes of a test are one training job
        environment.setenv("ROLLTRACE_QUIET", "1")
        if not NIGHTLY:
            environment.setenv("OMP_NUM_THREADS", "1")  # the other cores run other tests
        yield


@pytest.fixture(autouse=True)
def _off_afterwards() -> Iterator[None]:
    yield
    rolltrace.shutdown()
    _guard.internal_errors.clear()
    _announce.warned.clear()


@pytest.fixture
def traced() -> Iterator[Recording]:
    """Tracing is on, into memory."""
    with recording() as made:
        yield made


_written: dict[Hashable, Path] = {}


@pytest.fixture
def copied(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Call it with a path, a function that writes a store, and what else to give to that function: the function writes
    its store once in the life of this process, and whoever asks gets a copy of it at the path."""

    def copy(store: Path, write: Callable[..., object], *arguments: Hashable) -> Path:
        key = (write, *arguments)
        if key not in _written:
            original = tmp_path_factory.mktemp("written") / "store"
            write(original, *arguments)
            _written[key] = original
        return Path(shutil.copytree(_written[key], store, dirs_exist_ok=True))

    return copy


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Internal errors are caught and counted, as they are in production."""
    monkeypatch.delenv("ROLLTRACE_STRICT")


CORPUS = [
    "The quick brown fox jumps over the lazy dog, again and again and again.",
    "什么是强化学习?智能体与环境交互,得到奖励。你好,世界!",
    "emoji 🎉🎉 👩‍💻 naïve café — Ünïcödé ﷽",
    "def answer(question): return f'{question!r} -> 42'\n\t# a comment",
] * 4


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    """A byte-level BPE: small, so that Chinese and emoji are spread over several tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=380, initial_alphabet=alphabet, show_progress=False)
    )
    made.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|中 文|>"])
    return made


@pytest.fixture(scope="session")
def metaspace() -> Tokenizer:
    """As Llama 2: spaces are a letter of their own, what is unknown is spelt in bytes."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    spelt = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=360, special_tokens=spelt, show_progress=False)
    made.train_from_iterator(CORPUS[:1], trainer)
    return made


@pytest.fixture(scope="session")
def unigram() -> Tokenizer:
    """A unigram model that spells in bytes what it does not know."""
    spelt = [("<unk>", 0.0), *((f"<0x{byte:02X}>", -10.0) for byte in range(256))]
    words = [(f"▁{word}", -2.0) for text in CORPUS[:1] for word in text.split()]
    letters = [(letter, -5.0) for letter in "▁abcdefghijklmnopqrstuvwxyz,."]
    made = Tokenizer(models.Unigram(list(dict([*spelt, *words, *letters]).items()), unk_id=0, byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return made


@pytest.fixture(scope="session")
def word_piece() -> Tokenizer:
    """As BERT: the rest of a word begins with ##, words are joined by spaces."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False)
    made.train_from_iterator(CORPUS, trainer)
    return made


# A third party's backend: it appends what it gets to a file; other files tell it how to behave, at each call.
SHIPPING = """
import json, os, time
from pathlib import Path
from rolltrace.backends.backend import Refused
from rolltrace.errors import BackendError

class Backend:
    name = "NAME"

    def __init__(self):
        self.folder = Path(os.environ["SHIPPING"])
        if self.asked("unset"):
            raise BackendError("SHIPPING_KEY is not set; get one at the harbour")

    def asked(self, behaviour):
        return (self.folder / f"{self.name}-{behaviour}").exists()

    def behave(self):
        if self.asked("wrong-key"):
            raise BackendError("the key is wrong: set SHIPPING_KEY")
        if self.asked("down"):
            raise ConnectionError("no ship in the harbour")
        if self.asked("hang"):
            (self.folder / f"{self.name}-hangs").touch()
            time.sleep(1000)

    def write(self, call, trajectories):
        lines = [json.dumps({
            "call": call, "id": each.trajectory_id, "step": each.step, "sample": each.sample_index,
            "ops": [op.name for op in each.walk()], "scores": [score["value"] for score in each.scores],
            "batch": len(trajectories),
        }) + "\\n" for each in trajectories]
        file = os.open(self.folder / f"{self.name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, "".join(lines).encode())  # all or nothing, whoever is killed
        os.close(file)
        (self.folder / f"{self.name}-called").touch()
        if self.asked("slow"):
            time.sleep(0.2)

    def send(self, trajectories):
        self.behave()
        for each in trajectories:
            if each.name == "poison":
                raise TypeError("cannot take poison")
        taken = [each for each in trajectories if each.name != "contraband"]
        self.write("send", taken)
        return [Refused(each.trajectory_id, "contraband") for each in trajectories if each.name == "contraband"]

    def update(self, trajectories):
        self.behave()
        self.write("update", trajectories)

    def close(self):
        (self.folder / f"{self.name}-closed").touch()
"""


class Harbour:
    """What arrived at the backends `shipping` and `trucking`, and how they behave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def let(self, behaviour: str, name: str = "shipping") -> None:
        """Make it `down`, `slow`, `hang`, `unset`, or its key `wrong-key`."""
        (self.folder / f"{name}-{behaviour}").touch()

    def stop(self, behaviour: str, name: str = "shipping") -> None:
        (self.folder / f"{name}-{behaviour}").unlink()

    def arrived(self, name: str = "shipping") -> list[dict[str, Any]]:
        try:
            lines = (self.folder / f"{name}.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def sent(self, name: str = "shipping") -> Counter[str]:
        """How often each trajectory was sent."""
        return Counter(line["id"] for line in self.arrived(name) if line["call"] == "send")


@pytest.fixture
def harbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harbour]:
    """Two backends of a third party, installed for this process and all that it starts."""
    site = tmp_path / "site"
    for name in ("shipping", "trucking"):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[rolltrace.backends]\n{name} = {name}_backend:Backend\n")
        (site / f"{name}_backend.py").write_text(SHIPPING.replace("NAME", name))
    folder = tmp_path / "harbour"
    folder.mkdir()
    monkeypatch.setenv("SHIPPING", str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])))
    monkeypatch.syspath_prepend(str(site))
    yield Harbour(folder)
    for name in ("shipping_backend", "trucking_backend"):
        sys.modules.pop(name, None)
