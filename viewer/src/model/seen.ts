/** What an environment showed the policy at a step: messages, of which it saw most at the step before. */

export interface SeenMessage {
  readonly role: string;
  readonly text: string;
}

export interface Seen {
  /** How many the step before had too. */
  readonly known: number;
  readonly messages: readonly SeenMessage[];
}

/** A prompt as messages of plain text; null if it is anything else. */
export function seenIn(prompt: unknown, before: unknown): Seen | null {
  const messages = messagesOf(prompt);
  if (messages === null) return null;
  const earlier = messagesOf(before) ?? [];
  const extended = earlier.length < messages.length && earlier.every((each, at) => isSame(each, messages[at]!));
  return { messages, known: extended ? earlier.length : 0 };
}

function messagesOf(value: unknown): SeenMessage[] | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const messages = value.map(messageOf);
  return messages.every((each) => each !== null) ? messages : null;
}

function messageOf(value: unknown): SeenMessage | null {
  if (typeof value !== "object" || value === null) return null;
  const { role, content, ...rest } = value as Record<string, unknown>;
  return typeof role === "string" && typeof content === "string" && Object.keys(rest).length === 0
    ? { role, text: content }
    : null;
}

function isSame(one: SeenMessage, other: SeenMessage): boolean {
  return one.role === other.role && one.text === other.text;
}
