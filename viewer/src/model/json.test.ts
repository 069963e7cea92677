import { expect, test } from "vitest";
import { cutOf, isFlat, jsonPieces, nodeOf, prettyJson, preview } from "./json";

test("stubs show what they have and know how much there is", () => {
  const stub = { $cut: { type: "list", size: 30_000, shown: [1, 2] } };
  expect(cutOf(stub)?.size).toBe(30_000);
  expect(nodeOf(stub)).toMatchObject({ kind: "branch", open: "[", size: 30_000 });
  expect(cutOf({ $cut: 1, more: 2 })).toBe(null);
});

test("numbers that JSON cannot hold are numbers again", () => {
  expect(nodeOf({ $float: "nan" })).toEqual({ kind: "leaf", text: "NaN", type: "number" });
  expect(nodeOf({ $int: "0xffffffffffffffffff" })).toMatchObject({ text: "4722366482869645213695" });
  expect(nodeOf({ $float: "nan", b: 1 }).kind).toBe("branch");
});

test("a folded branch has one line", () => {
  expect(preview({ a: 1, b: "two", c: [1, 2], d: { e: 1 } })).toBe('{a: 1, b: "two", c: [2], d: {…}}');
  expect(preview(Array.from({ length: 100 }, (_, i) => i)).length).toBeLessThan(100);
});

test("short JSON stays on one line, long JSON is broken, other text is left alone", () => {
  expect(prettyJson('{"query":"x","n":3}')).toBe('{"query": "x", "n": 3}');
  expect(prettyJson(JSON.stringify({ text: "x".repeat(200) }))).toContain("\n");
  expect(prettyJson("{not json")).toBe("{not json");
});

test("coloured pieces hold all of the text", () => {
  for (const text of ['{"a": -1.5e3, "b": [true, null], "c": "d\\"e"}', "no json: <b>'", '"unfinished', ""])
    expect(
      jsonPieces(text)
        .map((piece) => piece.text)
        .join(""),
    ).toBe(text);
});

test("an object of a few plain values is flat, anything deeper or longer is a tree", () => {
  expect(isFlat({ moves: 5, won: null, why: "fewer moves" })).toBe(true);
  expect(isFlat({ at: { x: 1 } })).toBe(false);
  expect(isFlat({ text: "x".repeat(61) })).toBe(false);
  expect(isFlat({ $float: "nan" })).toBe(false);
});
