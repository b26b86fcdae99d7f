#!/usr/bin/env python3
"""Writes the sample data: reports.txt and topics.txt, with one `sentence@label` per line.

All sentences are generated from our own words by fixed rules, so the files can be regenerated at any time:

reports.txt  Is the news better, worse or the same? The answer depends on two words: more sales are better, more leaks
             are worse, fewer leaks are better. A side remark ("while the wind rose") is irrelevant.
topics.txt   Other sentences of the same kind, with another question: is it about a shop, a ship or a garden?
"""

import pathlib
import random

# kind of place: (places, things to have more of, things to have less of)
PLACES = {
    "shop": (
        ["the bakery", "the bookshop", "the corner shop", "the market stall", "the tailor", "the toy store"],
        ["sales", "orders", "regular customers", "takings"],
        ["complaints", "returns", "unpaid bills", "thefts"],
    ),
    "ship": (
        ["the ferry", "the old tug", "the fishing boat", "the coaster", "the barge", "the mail steamer"],
        ["catches", "passengers", "safe crossings", "full cargoes"],
        ["leaks", "delays", "engine faults", "lost crates"],
    ),
    "garden": (
        ["the rose garden", "the orchard", "the allotment", "the greenhouse", "the herb bed", "the vineyard"],
        ["blossoms", "harvests", "young plants", "ripe fruits"],
        ["weeds", "slugs", "dead shrubs", "frost losses"],
    ),
}
UP = ["rose", "grew", "climbed", "increased", "doubled", "went up", "picked up"]
DOWN = ["fell", "dropped", "shrank", "declined", "halved", "went down", "sank"]
LEVEL = ["stayed the same", "did not change", "held steady", "remained as before", "were unchanged", "kept level"]
WHEN = [
    "this week", "last month", "in spring", "in May", "in autumn", "over the year", "since Monday", "after the holiday",
    "in the second quarter", "by the end of June", "during the cold days", "within ten days",
]
REMARKS = [
    "while the wind rose", "while the rain fell", "as the days grew longer", "although the temperature dropped",
    "while the price of coal climbed", "as the river sank", "although the weather did not change",
]
FORMS = [
    "{things} at {place} {verb} {when}{remark}",
    "{when}, {things} at {place} {verb}{remark}",
    "{place} reports that {things} {verb} {when}{remark}",
    "we hear from {place} that {things} {verb} {when}{remark}",
]


class Draw:
    """Random draws that are the same in every version of Python."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def one_of(self, options, weights=None):
        weights = weights or [1] * len(options)
        at = self.random() * sum(weights)
        for option, weight in zip(options, weights):
            at -= weight
            if at < 0:
                return option
        return options[-1]


def report(draw, kind, news):
    """A sentence about a `kind` of place with the given `news`: better, worse or same."""
    places, wanted, unwanted = PLACES[kind]
    is_wanted = draw.random() < 0.8
    if news == "same":
        verbs = LEVEL
    else:
        verbs = UP if (news == "better") == is_wanted else DOWN
    sentence = draw.one_of(FORMS).format(
        things=draw.one_of(wanted if is_wanted else unwanted),
        place=draw.one_of(places),
        verb=draw.one_of(verbs),
        when=draw.one_of(WHEN),
        remark=", " + draw.one_of(REMARKS) if draw.random() < 0.12 else "",
    )
    return sentence[0].upper() + sentence[1:] + "."


def samples(seed, count, label_of):
    draw = Draw(seed)
    lines = {}  # no duplicate sentences
    while len(lines) < count:
        kind = draw.one_of(["garden", "shop", "ship"], [47, 30, 23])
        news = draw.one_of(["same", "better", "worse"], [47, 30, 23])
        lines.setdefault(report(draw, kind, news), label_of(kind, news))
    return "".join(f"{sentence}@{label}\n" for sentence, label in lines.items())


def main():
    folder = pathlib.Path(__file__).parent
    (folder / "reports.txt").write_text(samples(1, 900, lambda kind, news: news), encoding="utf-8")
    (folder / "topics.txt").write_text(samples(2, 900, lambda kind, news: kind), encoding="utf-8")


if __name__ == "__main__":
    main()
