import { expect, test } from "vitest";
import { type DiffPiece, tokenDiff, wordDiff } from "./diff";

const marked = (pieces: readonly DiffPiece[]) =>
  pieces.map((piece) => (piece.differs ? `[${piece.text}]` : piece.text)).join("");

test("words that differ are marked, runs of them as one", () => {
  const diff = wordDiff("The certificate is expired. I pay.", "The certificate is still valid. I compute.");
  expect(marked(diff.left)).toBe("The certificate is [expired]. I [pay].");
  expect(marked(diff.right)).toBe("The certificate is [still valid]. I [compute].");
});

test("Chinese is compared by character", () => {
  expect(marked(wordDiff("我想改签到明天", "我想改签到后天").right)).toBe("我想改签到[后]天");
});

test("both sides keep all of their text, however long it is", () => {
  const left = "a b ".repeat(40_000);
  const right = `${"a b ".repeat(20_000)}c ${"a b ".repeat(20_000)}`;
  const diff = wordDiff(left, right);
  expect(diff.left.map((piece) => piece.text).join("")).toBe(left);
  expect(diff.right.map((piece) => piece.text).join("")).toBe(right);
  expect(wordDiff("", "x").left).toEqual([]);
});

test("tokens that only one side has are marked on that side", () => {
  expect(tokenDiff([1, 2, 3, 4], [1, 9, 3, 4, 5])).toEqual({
    left: [false, true, false, false],
    right: [false, true, false, false, true],
  });
  expect(tokenDiff([], [7])).toEqual({ left: [], right: [true] });
});

test("texts whose words have little in common are compared by sentence", () => {
  const words = (from: number) => Array.from({ length: 900 }, (_, at) => `w${from + at}`).join(" ");
  const { left, right } = wordDiff(`Same. ${words(0)}. Same too.`, `Same. ${words(5000)}. Same too.`);
  expect(left.map((piece) => piece.differs)).toEqual([false, true, false]);
  expect(right.at(-1)).toEqual({ text: "Same too.", differs: false });
});
