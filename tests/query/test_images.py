"""Images of the store as files for a browser."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from PIL import Image

import rolltrace
from rolltrace.query import NotFoundError, QueryError, read_image
from rolltrace.store import blob_path
from tests.draining import drain


@rolltrace.rollout_trace_op
def look(picture: Image.Image) -> None:
    pass


def kept(store: Path, picture: Image.Image) -> str:
    """The name under which the store has a picture."""
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
    look(picture)
    rolltrace.shutdown()
    drain(store)
    (blob,) = (store / "blobs").glob("*/*")
    return blob.name


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16"])
def test_a_picture_comes_back_as_it_was(tmp_path: Path, mode: str) -> None:
    grey = Image.effect_mandelbrot((13, 7), (-3, -2.5, 2, 2.5), 100)
    picture = grey.convert("I").point(lambda value: value * 200) if mode == "I;16" else grey
    picture = picture.convert(mode)
    made = read_image(tmp_path, kept(tmp_path, picture))
    back = Image.open(io.BytesIO(made.data))
    assert made.media_type == "image/png"
    if mode == "I;16":
        assert back.tobytes() == picture.tobytes()
    else:
        assert back.convert("RGBA").tobytes() == picture.convert("RGBA").tobytes()


def test_a_mode_that_no_browser_knows_is_refused(tmp_path: Path) -> None:
    name = kept(tmp_path, Image.new("CMYK", (2, 2)))
    with pytest.raises(QueryError, match="CMYK"):
        read_image(tmp_path, name)


def test_a_damaged_image_is_an_error(tmp_path: Path) -> None:
    name = kept(tmp_path, Image.new("L", (8, 8)))
    path = blob_path(tmp_path, name)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(QueryError, match="cannot be read"):
        read_image(tmp_path, name)


@pytest.mark.parametrize("name", ["../../format.json", "", "AB", "0" * 15, "0" * 65, "0" * 16 + "/x"])
def test_only_a_hash_names_an_image(tmp_path: Path, name: str) -> None:
    with pytest.raises(QueryError, match="hash"):
        read_image(tmp_path, name)


def test_an_image_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_image(tmp_path, "0" * 32)


def test_a_link_or_a_pipe_in_the_place_of_an_image_is_not_followed(tmp_path: Path) -> None:
    name = kept(tmp_path, Image.new("L", (8, 8)))
    path = blob_path(tmp_path, name)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(QueryError, match="cannot be read"):
        read_image(tmp_path, name)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(QueryError, match="cannot be read"):
        read_image(tmp_path, name)
