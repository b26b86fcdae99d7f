#!/usr/bin/env python3
"""Draws docs/architecture.svg: every layer of the program, above all the layers that it uses.

draw_layers.py [ROOT] writes the picture; draw_layers.py --check [ROOT] exits with status 1 if it is out of date. The
layers are those that check_layers.py reads from the CMakeLists.txt files.
"""

import pathlib
import sys

from check_layers import read_layers

WIDTH, ROW, BOX, GAP = 940, 46, 130, 10
COLORS = {"engine": "#4a7fc1", "models": "#b0722b", "data": "#3f8f5f"}


def levels(layers):
    """The row of each layer: one above the highest that it uses."""
    found = {}

    def level(name):
        if name not in found:
            found[name] = 1 + max((level(below) for below in layers[name].depends if below in layers), default=-1)
        return found[name]

    for name in layers:
        level(name)
    return found


def drawing(layers, root):
    found = levels(layers)
    rows = [sorted((name for name in found if found[name] == row), key=lambda name: (layers[name].folder, name))
            for row in range(max(found.values()) + 1)]
    height = ROW * len(rows) + 2 * GAP
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
             'font-size="13" text-anchor="middle">',
             "  <title>The layers of the program: each uses only layers in the rows below it</title>"]
    for row, names in enumerate(rows):
        top = height - GAP - ROW * (row + 1) + GAP // 2
        first = (WIDTH - BOX * len(names)) / 2
        for at, name in enumerate(names):
            color = COLORS[layers[name].folder.relative_to(root).parts[0]]
            left = first + at * BOX
            lines.append(f'  <rect x="{left + GAP / 2:.0f}" y="{top}" width="{BOX - GAP}" height="{ROW - GAP}" rx="5" '
                         f'fill="{color}" fill-opacity="0.15" stroke="{color}"/>')
            lines.append(f'  <text x="{left + BOX / 2:.0f}" y="{top + (ROW - GAP) // 2 + 4}" fill="{color}">{name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main(words):
    check = "--check" in words
    roots = [word for word in words if word != "--check"]
    root = pathlib.Path(roots[0]).resolve() if roots else pathlib.Path(__file__).resolve().parents[1]
    path = root / "docs/architecture.svg"
    picture = drawing(read_layers(root), root)
    if not check:
        path.write_text(picture)
    elif not path.exists() or path.read_text() != picture:
        print(f"{path} is out of date: run tools/draw_layers.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
