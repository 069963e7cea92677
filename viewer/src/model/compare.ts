/** What the turns of several trajectories have in common. */
import type { CompareTurn, Message } from "../api/types.gen";

/** How many messages at the beginning of a turn are the same in all columns that have it. */
export function equalStart(turns: readonly (CompareTurn | null)[]): number {
  const present = turns.filter((turn) => turn !== null);
  const [first, ...others] = present;
  if (!first || others.length === 0) return 0;
  let same = 0;
  while (same < first.messages.length && others.every((turn) => sameMessage(turn.messages[same], first.messages[same])))
    same += 1;
  return same;
}

function sameMessage(one: Message | undefined, other: Message | undefined): boolean {
  return one !== undefined && other !== undefined && said(one) === said(other);
}

function said(message: Message): string {
  const calls = message.calls.map((call) => [
    call.name,
    call.arguments.text,
    (call.result ?? []).map((part) => part.text),
  ]);
  return JSON.stringify([message.role, message.parts.map((part) => [part.kind, part.text, part.blob]), calls]);
}
