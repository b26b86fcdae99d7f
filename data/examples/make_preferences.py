#!/usr/bin/env python3
"""Writes the sample preferences, preferences.jsonl: one pair of replies per line, as `prompt`, `chosen` and `rejected`.

The guide of make_dialogues.py should name the place and the hour in one sentence, and not ask back or answer curtly.
"""

import json
import pathlib
import random

from make_dialogues import HOURS, PLACES, SYSTEM, WAYS

CURT = ["Somewhere.", "Why do you ask?", "Ask someone else.", "No idea.", "Read the signs."]


def pair(draw):
    def one_of(options):
        return options[int(draw() * len(options))]

    place, (where, hour) = one_of(list(PLACES.items()))
    name = place[0].upper() + place[1:]
    prompt = [("system", SYSTEM), ("user", one_of(WAYS).format(place))]
    good, bad = f"{name} is {where}, and it opens at {hour} o'clock.", one_of(CURT)
    if draw() < 0.4:
        prompt += [("assistant", f"{name} is {where}."), ("user", one_of(HOURS))]
        good = f"It opens at {hour} o'clock."

    def turns(said):
        return [{"role": role, "content": content} for role, content in said]

    return {"prompt": turns(prompt), "chosen": turns([("assistant", good)]), "rejected": turns([("assistant", bad)])}


def main():
    draw = random.Random(11).random  # the same in every version of Python
    lines = [json.dumps(pair(draw)) for _ in range(120)]
    (pathlib.Path(__file__).parent / "preferences.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
