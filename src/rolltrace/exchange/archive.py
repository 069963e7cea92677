"""Members of a zip archive, read one at a time into memory and never onto a disk.

Besides stored and deflated members those compressed with zstd are read, which Python does not know before 3.14. A
member that says it is small and is not, one that is damaged or encrypted, is refused with a `Malformed`.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from rolltrace.exchange.import_rows import Malformed

_ZSTD = 93
_LOCAL_HEADER_BYTES = 30
_LOCAL_MARK = b"PK\x03\x04"
_ENCRYPTED = 1
_MOST_MEMBERS = 1_000_000


class Archive:
    """An open zip file."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            Malformed: it is not a zip file, or has far too many members.
        """
        try:
            self._file = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as fault:
            raise Malformed(f"not a zip archive: {fault}") from None
        self.members = {each.filename: each for each in self._file.infolist()}  # of two with one name, the last counts
        if len(self.members) > _MOST_MEMBERS:
            self.close()
            raise Malformed(f"{len(self.members):,} members; at most {_MOST_MEMBERS:,} are read")

    def read(self, name: str, most_bytes: int) -> bytes:
        """The content of a member.

        Raises:
            Malformed: it is larger than so many bytes, damaged, or compressed in a way that is not known.
        """
        member = self.members[name]
        if member.flag_bits & _ENCRYPTED:
            raise Malformed("encrypted")
        try:
            content = self._unpacked(member, most_bytes + 1)
        except (zipfile.BadZipFile, zlib.error, pa.ArrowException, OSError, EOFError, NotImplementedError) as fault:
            raise Malformed(f"cannot be unpacked: {fault}") from None
        if len(content) > most_bytes:
            raise Malformed(f"more than {most_bytes:,} bytes when unpacked")
        if zlib.crc32(content) != member.CRC:
            raise Malformed("damaged: its checksum differs")
        return content

    def _unpacked(self, member: zipfile.ZipInfo, most: int) -> bytes:
        if member.compress_type != _ZSTD:
            with self._file.open(member) as stream:
                return stream.read(most)
        packed = pa.BufferReader(self._packed(member))
        unpacked: bytes = pa.CompressedInputStream(packed, "zstd").read(most)
        return unpacked

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        """The bytes of a member as they stand in the file."""
        file: Any = self._file.fp
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER_BYTES)
        if len(header) < _LOCAL_HEADER_BYTES or not header.startswith(_LOCAL_MARK):
            raise zipfile.BadZipFile("its header is missing")
        lengths = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
        file.seek(sum(lengths), 1)
        packed: bytes = file.read(member.compress_size)
        if len(packed) < member.compress_size:
            raise zipfile.BadZipFile("cut off")
        return packed

    def close(self) -> None:
        """Close the file."""
        self._file.close()
