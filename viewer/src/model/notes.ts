/** Notes and changes of tags, as text. */
import type { Note } from "../api/types.gen";
import { preview } from "./json";

/** What a note says, then what was recorded with it; of a change of tags, the tags. */
export function noteText({ event, body }: Pick<Note, "event" | "body">): string {
  const value = body as unknown;
  if (typeof value === "string") return value;
  if (event !== "note" || typeof value !== "object" || value === null || !("text" in value))
    return `${event} ${preview(value)}`;
  const { text, fields } = value as { text: unknown; fields?: unknown };
  const more = typeof fields === "object" && fields !== null && Object.keys(fields).length > 0;
  return `${typeof text === "string" ? text : preview(text)}${more ? ` ${preview(fields)}` : ""}`;
}
