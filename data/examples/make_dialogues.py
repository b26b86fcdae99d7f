#!/usr/bin/env python3
"""Writes the sample dialogues, dialogues.jsonl: one dialogue per line, as `messages` with role and content.

A visitor of a small harbor town asks its guide for a place, then for its opening hours. All sentences are generated
from our own words by fixed rules, so the file can be regenerated at any time.
"""

import json
import pathlib
import random

PLACES = {"the bakery": ("behind the market", 6), "the bookshop": ("beside the school", 9),
          "the ferry": ("at the old pier", 7), "the greenhouse": ("above the river", 8),
          "the tailor": ("in Mill Lane", 10), "the lighthouse": ("on the north mole", 11),
          "the orchard": ("along the hill road", 8), "the post office": ("at the square", 9)}
WAYS = ["Where is {}?", "How do I find {}?", "I am looking for {}.", "Could you tell me the way to {}?"]
HOURS = ["When does it open?", "And when can I go there?", "How early is it open?", "From what time?"]
THANKS = ["Thank you!", "Thanks, that helps.", "Good, I will go there."]
SYSTEM = "You are the guide of a small harbor town. Answer in one sentence."


def dialogue(draw):
    def one_of(options):
        return options[int(draw() * len(options))]

    place, (where, hour) = one_of(list(PLACES.items()))
    name = place[0].upper() + place[1:]
    turns = [("user", one_of(WAYS).format(place)), ("assistant", f"{name} is {where}."),
             ("user", one_of(HOURS)), ("assistant", f"It opens at {hour} o'clock.")]
    if draw() < 0.3:
        turns += [("user", one_of(THANKS)), ("assistant", "You are welcome.")]
    return [{"role": role, "content": content} for role, content in [("system", SYSTEM), *turns]]


def main():
    draw = random.Random(7).random  # the same in every version of Python
    lines = [json.dumps({"messages": dialogue(draw)}) for _ in range(160)]
    (pathlib.Path(__file__).parent / "dialogues.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
