import { expect, test } from "vitest";
import type { Passing } from "../api/types.gen";
import { choiceOf, passCaption, passTitle, ruleOf } from "./passing";

const passing = (title: string, text: string) => ({ title, text }) as Passing;
const chosen = passing("pass", "pass: correct >= 1");
const binary = passing("pass", "pass: reward = 1");
const unchosen = passing("reward > 0", "reward > 0");

test("a figure is called pass only where that was chosen, or where rewards are 0 and 1", () => {
  expect(passTitle(chosen, "pass rate")).toBe("pass rate");
  expect(passTitle(binary, "pass rate")).toBe("pass rate");
  expect(passTitle(unchosen, "pass rate")).toBe("reward > 0");
  expect(passTitle(undefined, "pass rate")).toBe("pass rate");
});

test("the condition stands beside the word", () => {
  expect(ruleOf(chosen)).toBe("correct >= 1");
  expect(passCaption(chosen, "通过率")).toBe("通过率: correct >= 1");
  expect(passCaption(binary, "pass rate")).toBe("pass rate: reward = 1");
  expect(passCaption(unchosen, "pass rate")).toBe("reward > 0");
});

test("a form gives a term, a threshold or both, and nothing that is no number", () => {
  expect(choiceOf("correct", "")).toEqual({ term: "correct", threshold: null });
  expect(choiceOf("correct", " 0.5 ")).toEqual({ term: "correct", threshold: 0.5 });
  expect(choiceOf("", "-1")).toEqual({ term: null, threshold: -1 });
  expect(choiceOf("", "")).toBeNull();
  expect(choiceOf("correct", "much")).toBeNull();
  expect(choiceOf("", "Infinity")).toBeNull();
});
