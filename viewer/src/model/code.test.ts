import { expect, test } from "vitest";
import { codePieces, withFences } from "./code";

test("lines between fences are code, and no character is lost", () => {
  const text = "Look:\n```python\nprint(1)\n```\ndone";
  const pieces = withFences(text);
  expect(pieces.map((piece) => piece.kind)).toEqual(["text", "fence", "code", "fence", "text"]);
  expect(pieces.map((piece) => piece.text).join("")).toBe(text);
});

test("a fence that is never closed is code to the end, text without one is text", () => {
  expect(withFences("```\nx = 1").map((piece) => piece.kind)).toEqual(["fence", "code"]);
  expect(withFences("no `code` here")).toEqual([{ kind: "text", text: "no `code` here" }]);
});

test("strings, numbers, comments and keywords are told apart", () => {
  const code = "for d in range(2, n):  # all\n    print('x')";
  const pieces = codePieces(code);
  expect(pieces.map((piece) => piece.text).join("")).toBe(code);
  expect(pieces.filter((piece) => piece.kind !== "plain").map((piece) => [piece.kind, piece.text])).toEqual([
    ["word", "for"],
    ["word", "in"],
    ["number", "2"],
    ["comment", "# all"],
    ["word", "print"],
    ["string", "'x'"],
  ]);
});
