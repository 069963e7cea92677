"""A policy over two dozen tokens: a softmax whose few hundred weights are learned.

What stands before the cursor decides which weights apply: how many results there are, and in which part of the message
the cursor is. Beside its own weight, a token has those of what it would be there: the next digit of a number in the
question, the next digit of the last result, the question's first or second sign, or the end of a number that is whole.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from rolltrace.demo.task import MathProblem

END = "<|im_end|>"
WORDS = [
    *"0123456789+-*",
    *["<call>", "</call>", "<answer>", "</answer>"],
    " verified",
    " so",
    " the",
    " result",
    " is",
    END,
]
PLACES = ["start", "left", "right", "called", "answer", "answered", "elsewhere"]
MARKS = [
    *["first", "second", "third", "result"],
    *["whole_first", "whole_second", "whole_third", "whole_result"],
    *["sign", "then"],
]
_AT = {word: number for number, word in enumerate(WORDS)}
_SIGNS = "+-*"
_AFTER_NUMBER = {"left": _SIGNS, "right": ["</call>"], "answer": ["</answer>"]}
"""Place where a number stands -> what can follow one that is whole."""


Marks = list[tuple[int, int]]
"""Words that a mark stands at, and which mark."""


@dataclass(frozen=True)
class Choice:
    """One token that was drawn, with what the gradient needs."""

    row: int
    marks: Marks
    word: int
    logprob: float


class Policy:
    def __init__(self) -> None:
        self.weights = _pretrained()
        self.version = 0

    def draw(
        self, problem: MathProblem, results: list[int], text: str, chance: random.Random, temperature: float
    ) -> Choice:
        row, marks = _look(problem, results, text)
        chances = self._chances(row, marks, temperature)
        word = min(bisect(list(accumulate(chances)), chance.random()), len(WORDS) - 1)
        return Choice(row, marks, word, math.log(chances[word]))

    def learn(self, weighted: list[tuple[Choice, float]], rate: float) -> None:
        """One step of policy gradient, no longer than a gradient of size 10 makes it."""
        gradient = [[0.0] * len(row) for row in self.weights]
        for choice, weight in weighted:
            changes = [-chance * weight for chance in self._chances(choice.row, choice.marks, 1.0)]
            changes[choice.word] += weight
            row = gradient[choice.row]
            for word, change in enumerate(changes):
                row[word] += change
            for word, mark in choice.marks:
                row[len(WORDS) + mark] += changes[word]
        size = math.hypot(*(number for row in gradient for number in row))
        scale = rate * min(1.0, 10.0 / max(size, 1e-9))
        for weights, row in zip(self.weights, gradient):
            for at, number in enumerate(row):
                weights[at] += scale * number
        self.version += 1

    def _chances(self, row: int, marks: Marks, temperature: float) -> list[float]:
        weights = self.weights[row]
        logits = weights[: len(WORDS)]
        for word, mark in marks:
            logits[word] += weights[len(WORDS) + mark]
        highest = max(logits)
        powers = [math.exp((logit - highest) / temperature) for logit in logits]
        total = math.fsum(powers)
        return [power / total for power in powers]


def _row(results: int, place: str) -> int:
    return min(results, 2) * len(PLACES) + PLACES.index(place)


def _look(problem: MathProblem, results: list[int], text: str) -> tuple[int, Marks]:
    place, typed = _place(text)
    marks: Marks = []
    numbers = [problem.first, problem.second, problem.third, results[-1] if results else None]
    if place in _AFTER_NUMBER:
        for at, number in enumerate(numbers):
            digits = str(number) if number is not None else ""
            if digits and digits == typed:
                marks += ((_AT[word], MARKS.index("whole_first") + at) for word in _AFTER_NUMBER[place])
            elif digits.startswith(typed) and digits:
                marks.append((_AT[digits[len(typed)]], at))
    marks += [(_AT[problem.sign], MARKS.index("sign")), (_AT[problem.then], MARKS.index("then"))]
    return _row(len(results), place), marks


def _place(text: str) -> tuple[str, str]:
    """In which part of the message the cursor is, and what was typed of the number there.

    >>> _place("<call>17+2"), _place("<answer>42</answer> verified")
    (('right', '2'), ('answered', ''))
    """
    if not text:
        return "start", ""
    if "</answer>" in text:
        return "answered", ""
    if "<answer>" in text:
        typed = text.rpartition("<answer>")[2]
        return ("answer", typed) if not typed or typed.isdigit() else ("elsewhere", "")
    if "</call>" in text:
        return "called", ""
    if "<call>" in text:
        left, sign, right = _parted(text.rpartition("<call>")[2])
        typed = right if sign else left
        return ("right" if sign else "left", typed) if not typed or typed.isdigit() else ("elsewhere", "")
    return "elsewhere", ""


def _parted(expression: str) -> tuple[str, str, str]:
    for at, letter in enumerate(expression):
        if letter in _SIGNS:
            return expression[:at], letter, expression[at + 1 :]
    return expression, "", ""


def _pretrained() -> list[list[float]]:
    """What it knows before training: the grammar, mostly, and a little of which number goes where."""
    weights = [[0.0] * (len(WORDS) + len(MARKS)) for _ in range(3 * len(PLACES))]

    def prefer(place: str, amount: float, *names: str, results: Sequence[int] = range(3)) -> None:
        columns = [_AT[name] if name in _AT else len(WORDS) + MARKS.index(name) for name in names]
        for count in results:
            for column in columns:
                weights[_row(count, place)][column] += amount

    prefer("start", 4.5, "<call>", "<answer>")
    prefer("start", 1.0, " so", " the")
    prefer("start", 1.0, "<call>", results=[0, 1])
    prefer("start", 1.5, "<answer>", results=[2])
    for place in ("left", "right", "answer"):
        prefer(place, 4.5, *MARKS[:8])
    prefer("left", 1.5, "first", results=[0])
    prefer("right", 1.0, "second", results=[0])
    prefer("left", 1.5, "result", results=[1])
    prefer("right", 1.0, "third", results=[1])
    prefer("answer", 1.5, "result")
    prefer("left", 1.5, "sign", "then")
    prefer("called", 6.0, END)
    prefer("answered", 6.0, END)
    prefer("answered", 2.0, " verified")
    prefer("elsewhere", 2.0, "<call>", "<answer>", END)
    return weights
