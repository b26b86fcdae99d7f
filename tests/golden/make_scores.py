"""Writes scores.json: the scores that scikit-learn, rouge-score and sacrebleu give to pairs of texts."""

import json
import pathlib
import random
import warnings

import sacrebleu
from rouge_score import rouge_scorer
from sklearn import metrics

WORDS = ("the The a sales Sales rose fell by 5 5.2 1,000 % profit, profit net-sales EUR U.S. (year) \"quoted\" &amp; it's "
         "co-op 3-4 end. really?! äöü naïve 10-year x.y , . ... state-of-the-art\nnew\tline <b> #1 $20").split(" ")


def sentence(draws: random.Random) -> str:
    return " ".join(draws.choice(WORDS) for _ in range(draws.randrange(0, 14)))


def changed(text: str, draws: random.Random) -> str:
    words = text.split(" ")
    for _ in range(draws.randrange(0, 4)):
        i = draws.randrange(len(words))
        words[i : i + 1] = draws.choice([[], [draws.choice(WORDS)], [words[i], draws.choice(WORDS)]]) or [""]
    return " ".join(words)


def score(pairs: list[tuple[str, str]]) -> dict[str, float]:
    predictions, labels = [p for p, _ in pairs], [label for _, label in pairs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = {"accuracy": metrics.accuracy_score(labels, predictions),
                  "exact_match": metrics.accuracy_score(labels, predictions),
                  "matthews_correlation": metrics.matthews_corrcoef(labels, predictions)}
        for average in ("macro", "micro", "weighted"):
            precision, recall, f1, _ = metrics.precision_recall_fscore_support(labels, predictions, average=average,
                                                                               zero_division=0)
            scores[f"f1_{average}"] = f1
            if average == "macro":
                scores |= {"precision_macro": precision, "recall_macro": recall}
    names = ("rouge1", "rouge2", "rougeL")
    rouge = [rouge_scorer.RougeScorer(list(names)).score(label, prediction) for prediction, label in pairs]
    scores |= {name: sum(one[name].fmeasure for one in rouge) / len(rouge) for name in names}
    scores["bleu"] = sacrebleu.corpus_bleu(predictions, [labels]).score
    return {name: float(value) for name, value in scores.items()}


def main() -> None:
    draws = random.Random(5)
    cases = []
    for _ in range(60):  # classes
        classes = ["positive", "negative", "neutral", "other"][: draws.randrange(1, 5)]
        cases.append([(draws.choice(classes), draws.choice(classes)) for _ in range(draws.randrange(1, 25))])
    for _ in range(140):  # texts
        labels = [sentence(draws) for _ in range(draws.randrange(1, 5))]
        cases.append([(changed(label, draws) if draws.random() < 0.8 else sentence(draws), label) for label in labels])
    lines = ",\n".join(json.dumps({"pairs": pairs, "scores": score(pairs)}, ensure_ascii=False) for pairs in cases)
    (pathlib.Path(__file__).parent / "scores.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
