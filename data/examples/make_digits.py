#!/usr/bin/env python3
"""Writes digits/: synthetic handwriting in MNIST's four files. Each digit is drawn with straight strokes, which are
slanted, stretched and jittered randomly."""

import gzip
import math
import pathlib
import struct

from make_samples import Draw

SIDE = 28  # pixels
STROKES = {  # of each digit, on a grid 2 wide and 4 high
    0: [(0, 0, 2, 0), (2, 0, 2, 4), (2, 4, 0, 4), (0, 4, 0, 0)],
    1: [(0.3, 1, 1, 0), (1, 0, 1, 4)],
    2: [(0, 0.5, 1, 0), (1, 0, 2, 0.8), (2, 0.8, 0, 4), (0, 4, 2, 4)],
    3: [(0, 0, 2, 0), (2, 0, 0.8, 1.7), (0.8, 1.7, 2, 2.8), (2, 2.8, 1.4, 4), (1.4, 4, 0, 4)],
    4: [(1.5, 4, 1.5, 0), (1.5, 0, 0, 2.7), (0, 2.7, 2, 2.7)],
    5: [(2, 0, 0, 0), (0, 0, 0, 1.8), (0, 1.8, 2, 2), (2, 2, 2, 4), (2, 4, 0, 4)],
    6: [(1.6, 0, 0, 2), (0, 2, 0, 4), (0, 4, 2, 4), (2, 4, 2, 2.2), (2, 2.2, 0, 2.2)],
    7: [(0, 0, 2, 0), (2, 0, 0.6, 4)],
    8: [(0, 0, 2, 0), (2, 0, 0, 4), (0, 4, 2, 4), (2, 4, 0, 0)],
    9: [(2, 1.8, 0, 1.8), (0, 1.8, 0, 0), (0, 0, 2, 0), (2, 0, 2, 2), (2, 2, 1, 4)],
}


def distance(x, y, stroke):
    """The distance of a point from a line segment."""
    x0, y0, x1, y1 = stroke
    dx, dy = x1 - x0, y1 - y0
    along = min(1, max(0, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy)))
    return math.hypot(x - x0 - along * dx, y - y0 - along * dy)


def picture(draw, digit):
    """An image of SIDE x SIDE bytes; pixels on a stroke are 255."""
    between = lambda low, high: low + (high - low) * draw.random()
    lean, wide, high = between(-0.35, 0.35), between(3.2, 5.2), between(4.2, 5.0)
    left, top, thick = SIDE / 2 - wide + between(-1.5, 1.5), SIDE / 2 - 2 * high + between(-1, 1), between(0.8, 1.5)
    strokes = [[part for x, y in (ends[:2], ends[2:])
                for part in (left + wide * x + lean * (2 - y) * 2 + between(-0.5, 0.5), top + high * y)]
               for ends in STROKES[digit]]
    return bytes(17 * round(15 * max(0, min(1, thick + 0.5 - min(distance(x, y, s) for s in strokes))))
                 for y in range(SIDE) for x in range(SIDE))


def write_digits(folder, part, seed, count):
    draw = Draw(seed)
    labels = bytes(int(10 * draw.random()) for _ in range(count))
    pictures = b"".join(picture(draw, digit) for digit in labels)
    folder.mkdir(exist_ok=True)
    images = struct.pack(">4I", 0x803, count, SIDE, SIDE) + pictures
    (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, mtime=0))
    (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(struct.pack(">2I", 0x801, count) + labels, mtime=0))


if __name__ == "__main__":
    write_digits(pathlib.Path(__file__).parent / "digits", "train", 4, 1000)
    write_digits(pathlib.Path(__file__).parent / "digits", "t10k", 5, 200)
