"""Images of the store as files for a browser."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

import rolltrace
from rolltrace.query import IncompleteWarning, NotFoundError, QueryError, open_store, read_image
from tests.draining import drain, rows

from .conftest import files_of


@rolltrace.rollout_trace_op
def look(picture: Image.Image) -> None:
    pass


def kept(store: Path, picture: Image.Image) -> str:
    """The name under which the store has a picture."""
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
    look(picture)
    rolltrace.shutdown()
    drain(store)
    (blob,) = rows(store, "blobs")
    return str(blob["hash"])


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16"])
def test_a_picture_comes_back_as_it_was(tmp_path: Path, mode: str) -> None:
    grey = Image.effect_mandelbrot((13, 7), (-3, -2.5, 2, 2.5), 100)
    picture = grey.convert("I").point(lambda value: value * 200) if mode == "I;16" else grey
    picture = picture.convert(mode)
    made = read_image(open_store(tmp_path), kept(tmp_path, picture))
    back = Image.open(io.BytesIO(made.data))
    assert made.media_type == "image/png"
    if mode == "I;16":
        assert back.tobytes() == picture.tobytes()
    else:
        assert back.convert("RGBA").tobytes() == picture.convert("RGBA").tobytes()


def test_a_mode_that_no_browser_knows_is_refused(tmp_path: Path) -> None:
    name = kept(tmp_path, Image.new("CMYK", (2, 2)))
    with pytest.raises(QueryError, match="CMYK"):
        read_image(open_store(tmp_path), name)


def test_the_image_of_a_damaged_file_is_missing(tmp_path: Path) -> None:
    name = kept(tmp_path, Image.new("L", (8, 8)))
    (path,) = files_of(tmp_path, "blobs")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(NotFoundError), pytest.warns(IncompleteWarning):
        read_image(open_store(tmp_path), name)


@pytest.mark.parametrize("name", ["../../format.json", "", "AB", "0" * 15, "0" * 65, "0" * 16 + "/x"])
def test_only_a_hash_names_an_image(tmp_path: Path, name: str) -> None:
    with pytest.raises(QueryError, match="hash"):
        read_image(open_store(tmp_path), name)


def test_an_image_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_image(open_store(tmp_path), "0" * 32)
