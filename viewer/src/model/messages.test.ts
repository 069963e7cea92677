import { expect, test } from "vitest";
import type { Message, OutlineOp } from "../api/types.gen";
import { folded, messageOfOp } from "./messages";

const message = (op_id: string | null, turn: number | null, calls: (string | null)[] = []): Message =>
  ({ op_id, turn, calls: calls.map((op) => ({ op_id: op })) }) as unknown as Message;

test("an op leads to its message, a tool's op to the message that called it, any other to its turn", () => {
  const messages = [message(null, null), message("a", 0, ["tool"]), message("b", 1)];
  const outline = [{ op_id: "judge", turn: 1 } as OutlineOp];
  expect(messageOfOp(messages, outline, "a")).toBe(1);
  expect(messageOfOp(messages, outline, "tool")).toBe(1);
  expect(messageOfOp(messages, outline, "judge")).toBe(2);
  expect(messageOfOp(messages, outline, "nowhere")).toBe(-1);
  expect(messageOfOp(messages, outline, null)).toBe(-1);
});

test("long text is folded at a line's end", () => {
  expect(folded("short")).toBe("short");
  const lines = "a line of text\n".repeat(400);
  expect(folded(lines).length).toBeLessThan(2001);
  expect(lines[folded(lines).length]).toBe("\n");
});
