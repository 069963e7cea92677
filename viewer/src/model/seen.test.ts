import { expect, test } from "vitest";
import { seenIn } from "./seen";

const [first, second] = [
  { role: "user", content: "Where?" },
  { role: "assistant", content: "Left." },
];

test("messages that the step before had are told apart from new ones", () => {
  expect(seenIn([first], null)).toEqual({ known: 0, messages: [{ role: "user", text: "Where?" }] });
  expect(seenIn([first, second], [first])?.known).toBe(1);
  expect(seenIn([first, second], [second])?.known).toBe(0);
  expect(seenIn([first], [first])?.known).toBe(0);
});

test("anything that is no list of plain messages stays as it is", () => {
  expect(seenIn("Where?", null)).toBe(null);
  expect(seenIn([{ ...first, tool_calls: [] }], null)).toBe(null);
  expect(seenIn([{ role: "user", content: { $cut: {} } }], null)).toBe(null);
});
