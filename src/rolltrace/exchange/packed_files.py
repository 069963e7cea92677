"""Reads Parquet files, and members of zip archives, one at a time into memory and never onto a disk.

Sizes are looked at before anything is unpacked, because a few bytes of a compressed file can stand for gigabytes. Of
zip archives, members compressed with zstd are read too, which Python does not know before 3.14.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rolltrace.exchange.fields import Malformed
from rolltrace.exchange.source_lines import Line
from rolltrace.exchange.text import as_bytes

_MAX_ROW_GROUP_BYTES = 2 << 30
_ROWS_AT_ONCE = 32
_ZSTD = 93
_LOCAL_HEADER_BYTES = 30
_LOCAL_MARK = b"PK\x03\x04"
_ENCRYPTED = 1
_MAX_MEMBERS = 1_000_000


def parquet_rows(path: Path) -> Iterator[Line]:
    """The rows of a Parquet file, as objects."""
    number = 0
    try:
        for number, row in enumerate(read_parquet(path), start=1):
            yield Line(number, as_bytes(row), row)
    except Malformed as error:
        yield Line(number and number + 1, b"", problem=str(error))


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file."""
    try:
        with pq.ParquetFile(path) as file:
            for at in range(file.metadata.num_row_groups):
                size = file.metadata.row_group(at).total_byte_size
                if size > _MAX_ROW_GROUP_BYTES:
                    raise Malformed(f"row group {at} has {size:,} bytes; at most {_MAX_ROW_GROUP_BYTES:,} are read")
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                yield from batch.to_pylist()
    except Malformed:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        why = str(error).partition("\n")[0][:200] or type(error).__name__
        raise Malformed(f"not a Parquet file that can be read: {why}") from None


def parquet_columns(path: Path) -> frozenset[str]:
    """The names of the columns of a Parquet file; none if it is no such file."""
    try:
        return frozenset(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError):
        return frozenset()


class Archive:
    """An open zip file.

    Raises:
        Malformed: it is not a zip file, or has far too many members.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise Malformed(f"not a zip archive: {error}") from None
        self.members = {each.filename: each for each in self._file.infolist()}  # of two with one name, the last counts
        if len(self.members) > _MAX_MEMBERS:
            self._file.close()
            raise Malformed(f"{len(self.members):,} members; at most {_MAX_MEMBERS:,} are read")

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, name: str, max_bytes: int) -> bytes:
        """The content of a member.

        Raises:
            Malformed: it is larger than so many bytes, damaged, encrypted, or compressed in a way that is not known.
        """
        member = self.members[name]
        if member.flag_bits & _ENCRYPTED:
            raise Malformed("encrypted")
        try:
            content = self._unpack(member, max_bytes + 1)
        except (zipfile.BadZipFile, zlib.error, pa.ArrowException, OSError, EOFError, NotImplementedError) as error:
            raise Malformed(f"cannot be unpacked: {error}") from None
        if len(content) > max_bytes:
            raise Malformed(f"more than {max_bytes:,} bytes when unpacked")
        if zlib.crc32(content) != member.CRC:
            raise Malformed("damaged: its checksum differs")
        return content

    def _unpack(self, member: zipfile.ZipInfo, max_bytes: int) -> bytes:
        if member.compress_type != _ZSTD:
            with self._file.open(member) as stream:
                return stream.read(max_bytes)
        file: Any = self._file.fp
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER_BYTES)
        if len(header) < _LOCAL_HEADER_BYTES or not header.startswith(_LOCAL_MARK):
            raise zipfile.BadZipFile("its header is missing")
        file.seek(sum(int.from_bytes(header[at : at + 2], "little") for at in (26, 28)), 1)  # its name, its extras
        packed: bytes = file.read(member.compress_size)
        if len(packed) < member.compress_size:
            raise zipfile.BadZipFile("cut off")
        unpacked: bytes = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read(max_bytes)
        return unpacked
