/** Messages and the ops that they came from. */
import type { Message, OutlineOp } from "../api/types.gen";

/** Which message shows an op: the one it produced, the one that called it as a tool, or the last of its turn. -1 for none. */
export function messageOfOp(messages: readonly Message[], outline: readonly OutlineOp[], opId: string | null): number {
  if (opId === null) return -1;
  const own = messages.findIndex(
    (message) => message.op_id === opId || message.calls.some((call) => call.op_id === opId),
  );
  if (own >= 0) return own;
  const turn = outline.find((op) => op.op_id === opId)?.turn ?? null;
  return turn === null ? -1 : messages.findLastIndex((message) => message.turn === turn);
}

const USUAL_ENDS = new Set([
  "stop",
  "completed",
  "end_turn",
  "eos",
  "eos_token",
  "tool_calls",
  "tool_use",
  "function_call",
]);

/** Whether a reply ended otherwise than by the model's own choice, as far as its finish reason tells. */
export function isOddEnd(reason: string | null): boolean {
  return reason !== null && reason !== "" && !USUAL_ENDS.has(reason);
}

/** All text of a message, to copy. */
export function plainText(message: Message): string {
  const parts = message.parts.map((part) => part.text ?? "");
  const calls = message.calls.map((call) => `${call.name}(${call.arguments.text ?? ""})`);
  return [...parts, ...calls].filter(Boolean).join("\n\n");
}

/** Text longer than this is folded. */
export const FOLD_AT = 3000;
const SHOWN = 2000;

/** The first part of a long text, up to a line's end where there is one near. */
export function folded(text: string): string {
  if (text.length <= FOLD_AT) return text;
  const end = text.lastIndexOf("\n", SHOWN);
  return text.slice(0, end > SHOWN / 2 ? end : SHOWN);
}
