import { expect, test } from "vitest";
import { blocksOfMarkdown, inline } from "./markdown";

test("blocks that models write", () => {
  const text =
    "# Plan\n\nFirst **this**.\n- a\n- `b`\n\n1. one\n```python\nx = 1\n\n# no heading\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n> said\n---";
  expect(blocksOfMarkdown(text).map((block) => block.kind)).toEqual([
    "heading",
    "paragraph",
    "list",
    "list",
    "code",
    "table",
    "quote",
    "rule",
  ]);
  expect(blocksOfMarkdown(text)[4]).toEqual({ kind: "code", language: "python", text: "x = 1\n\n# no heading" });
});

test("HTML and links are text", () => {
  const text = "<img src=x onerror=alert(1)> [a](javascript:alert(1))";
  expect(inline(text)).toEqual([{ kind: "text", text }]);
});

test("unfinished marks stay as they are, and every input ends", () => {
  expect(inline("2 ** 3 and *open")).toEqual([{ kind: "text", text: "2 ** 3 and *open" }]);
  expect(blocksOfMarkdown("```\nnever closed")).toEqual([{ kind: "code", language: "", text: "never closed" }]);
  for (const odd of ["|", ">", "#", "- ", "*", "\n\n", "~~~"]) blocksOfMarkdown(odd);
});
