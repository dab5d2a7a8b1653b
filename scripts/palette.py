"""Make a screenshot small: 256 colours, which a page of flat colours hardly has more of."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from pathlib import Path

Colour = tuple[int, int, int]
COLOURS = 256


def shrink(file: Path) -> None:
    """Rewrite an RGB or RGBA PNG of 8 bits with a palette, in place."""
    width, height, channels, pixels = _read(file.read_bytes())
    rows = [
        list(zip(row[0::channels], row[1::channels], row[2::channels], strict=True))
        for row in (pixels[y * width * channels :][: width * channels] for y in range(height))
    ]
    counted = Counter(colour for row in rows for colour in row)
    palette = _palette(counted)
    place = {colour: _nearest(colour, palette) for colour in counted}
    lines = b"".join(b"\0" + bytes(place[colour] for colour in row) for row in rows)
    file.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + _chunk(b"PLTE", b"".join(bytes(colour) for colour in palette))
        + _chunk(b"IDAT", zlib.compress(lines, 9))
        + _chunk(b"IEND", b"")
    )


def _palette(counted: Counter[Colour]) -> list[Colour]:
    """The commonest colours, but one of each kind: shades of text would crowd out a small dot."""
    kinds: dict[Colour, tuple[Colour, int]] = {}
    for colour, number in counted.most_common():
        kind = (colour[0] >> 4, colour[1] >> 4, colour[2] >> 4)
        first, so_far = kinds.get(kind, (colour, 0))
        kinds[kind] = (first, so_far + number)
    firsts = sorted(kinds.values(), key=lambda one: one[1], reverse=True)[: COLOURS // 2]
    rest = [colour for colour, _ in counted.most_common(COLOURS)]
    return list(dict.fromkeys([colour for colour, _ in firsts] + rest))[:COLOURS]


def _read(data: bytes) -> tuple[int, int, int, bytes]:
    """Width, height, bytes a pixel, and the pixels of a PNG that is not interlaced."""
    packed, place = b"", 8
    width = height = channels = 0
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        name, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        if name == b"IHDR":
            width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            if depth != 8 or kind not in (2, 6) or interlaced:
                raise ValueError("only plain PNGs of 8 bits in RGB or RGBA are understood")
            channels = 3 if kind == 2 else 4
        elif name == b"IDAT":
            packed += body
        place += 12 + length
    return width, height, channels, _unfiltered(zlib.decompress(packed), width, channels)


def _unfiltered(raw: bytes, width: int, channels: int) -> bytes:
    stride, done = width * channels, bytearray()
    above = bytes(stride)
    for start in range(0, len(raw), stride + 1):
        line = bytearray(raw[start + 1 : start + 1 + stride])
        _undo(raw[start], line, above, channels)
        done += line
        above = bytes(line)
    return bytes(done)


def _undo(kind: int, line: bytearray, above: bytes, channels: int) -> None:
    """Undo one line's filter: none, sub, up, average or Paeth."""
    if kind == 0:
        return
    for i in range(len(line)):
        left = line[i - channels] if i >= channels else 0
        corner = above[i - channels] if i >= channels else 0
        guess = (left, above[i], (left + above[i]) // 2, _paeth(left, above[i], corner))[kind - 1]
        line[i] = (line[i] + guess) & 0xFF


def _paeth(left: int, above: int, corner: int) -> int:
    near_left, near_above = abs(above - corner), abs(left - corner)
    near_corner = abs(left + above - 2 * corner)
    if near_left <= near_above and near_left <= near_corner:
        return left
    return above if near_above <= near_corner else corner


def _nearest(colour: Colour, palette: list[Colour]) -> int:
    distances = [sum((a - b) ** 2 for a, b in zip(colour, one, strict=True)) for one in palette]
    return distances.index(min(distances))


def _chunk(name: bytes, body: bytes) -> bytes:
    checksum = zlib.crc32(name + body)
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", checksum)
