#!/usr/bin/env python3
"""Writes play.txt, a play generated from our own sentences by fixed rules: travelers come to a ferry, and the FERRYMAN
answers them in a distinctive style, in two lines that end with the river."""

import pathlib

from make_samples import Draw

TRAVELERS = {  # and their greetings
    "BAKER": ["Good morning, master of the boat.", "Here I am again, flour on my sleeves."],
    "GARDENER": ["A mild day to you.", "My boots are full of earth, forgive me."],
    "CHILD": ["Hello! Is this your boat?", "I ran all the way from the hill."],
    "STRANGER": ["Is anyone there?", "They told me to ask for the ferryman."],
    "WIDOW": ["You know me, I think.", "The road was long this evening."],
}
CARGO = ["a basket of bread", "a box of young plants", "my father's clock", "two sleepy hens", "a letter for my sister",
         "a lantern without oil", "nothing but my coat", "a sack of apples"]
QUESTIONS = {  # to the ferryman, and the first halves of his answers
    "How deep is the river here?": ["Deep enough for a moon and two stars", "My pole has never told me the same twice"],
    "What do I owe you for the crossing?": ["A song, if you have one", "One copper coin, or a true story"],
    "Will there be a storm tonight?": ["The swallows fly low", "The wind has not made up its mind"],
    "How long have you been at the oars?": ["Since the bridge fell", "Longer than the willow has been bent"],
    "Can you take {cargo} across as well?": ["The boat has carried heavier sorrows", "Lay it down where it stays dry"],
    "Do you never leave the river?": ["I left it once, and it came after me", "Where would I go that is not a shore"],
    "Who waits on the other side?": ["Those who crossed before you", "A dog, a lamp and an open door"],
    "Why do you row so slowly?": ["The water has no hurry", "Because the far bank will still be there"],
    "Have you seen my brother pass?": ["Many brothers pass", "A man with your eyes sat where you sit"],
    "Is it true that the river sings?": ["Only to those who stop talking", "In spring it does, with the ice"],
}
TURNS = [  # the second halves of his answers
    "and the river keeps the rest.", "so sit down and mind the edge.", "and no oar can change it.",
    "as every ferryman will tell you.", "but the tide has the last word.", "so hold on to your hat.",
    "and I have learned not to ask.", "and so it will be tomorrow.",
]
REPLIES = ["I had not thought of it like that.", "You speak in riddles, old man.", "Then I will get in.",
           "My mother said the same.", "And if I stayed on this side?", "Let us go before the light is gone."]
PLACES = ["at the landing", "on the water", "under the willow", "in the fog", "near the far bank"]


def play(seed, scenes):
    draw = Draw(seed)
    speeches = []
    for _ in range(scenes):
        traveler = draw.one_of(list(TRAVELERS))
        speeches.append((traveler, f"{draw.one_of(TRAVELERS[traveler])} I meet you {draw.one_of(PLACES)}, "
                                   f"with {draw.one_of(CARGO)}."))
        for turn in range(2 + int(3 * draw.random())):
            question = draw.one_of(list(QUESTIONS))
            before = "" if turn == 0 else draw.one_of(REPLIES) + "\n"
            speeches.append((traveler, before + question.format(cargo=draw.one_of(CARGO))))
            speeches.append(("FERRYMAN", f"{draw.one_of(QUESTIONS[question])},\n{draw.one_of(TURNS)}"))
    return "\n".join(f"{speaker}:\n{text}\n" for speaker, text in speeches)


if __name__ == "__main__":
    (pathlib.Path(__file__).parent / "play.txt").write_text(play(3, 110), encoding="utf-8")
