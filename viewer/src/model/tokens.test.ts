import { expect, test } from "vitest";
import type { Segment } from "../api/types.gen";
import { blockAt, blocksOf, escaped, piecesOf, probability, type Tokens } from "./tokens";

const segment = (start: number, end: number, kind: Segment["kind"], turn: number): Segment => ({
  start,
  end,
  kind,
  turn,
  op_id: "1",
  policy_version: null,
  has_text: true,
});

function sequence(length: number, segments: Segment[], pieces: string[] | null = null): Tokens {
  return {
    start: 0,
    total: length,
    ids: new Array(length).fill(1),
    pieces,
    logprobs: [],
    mask: [],
    segments,
    breaks: [],
  };
}

test("text is cut by characters, not by UTF-16 units", () => {
  expect(piecesOf("a😀b我", [1, 0, 1, 2])).toEqual(["a", "", "😀", "b我"]);
});

test("blocks cover every token once and stay inside their segment", () => {
  const tokens = sequence(2000, [segment(0, 700, "prompt", 0), segment(700, 1990, "response", 0)]);
  const blocks = blocksOf(tokens);
  expect(blocks[0]!.start).toBe(0);
  blocks.forEach((block, index) => expect(block.end).toBe(blocks[index + 1]?.start ?? 2000));
  expect(blocks.filter((block) => block.opens).map((block) => block.start)).toEqual([0, 700]);
  expect(blocks.at(-1)).toMatchObject({ start: 1990, segment: null });
  expect(Math.max(...blocks.map((block) => block.end - block.start))).toBeLessThanOrEqual(240);
});

test("a long block ends at a line's end", () => {
  const pieces = Array.from({ length: 600 }, (_, index) => (index % 50 === 49 ? "\n" : "x"));
  expect(blocksOf(sequence(600, [segment(0, 600, "response", 0)], pieces))[0]!.end).toBe(100);
});

test("a break begins a block", () => {
  const tokens = { ...sequence(100, [segment(0, 100, "prompt", 1)]), breaks: [{ at: 40, turn: 1 } as never] };
  expect(blocksOf(tokens).map((block) => [block.start, block.break !== null])).toEqual([
    [0, false],
    [40, true],
  ]);
});

test("the block of a token is found", () => {
  const blocks = blocksOf(sequence(2000, [segment(0, 2000, "response", 0)]));
  for (const index of [0, 239, 240, 1999]) {
    const block = blocks[blockAt(blocks, index)]!;
    expect(block.start <= index && index < block.end).toBe(true);
  }
});

test("pieces are spelled out, signs that turn text around too", () => {
  expect(escaped(" a\n")).toBe('" a\\n"');
  expect(escaped("\u202eevil\u200b")).toBe('"\\u202eevil\\u200b"');
});

test("probabilities keep the digits that tell something", () => {
  expect([0, -0.5, -3.8, -12].map(probability)).toEqual(["1.00", "0.61", "0.022", "6.1e-6"]);
});
