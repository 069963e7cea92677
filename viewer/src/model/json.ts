/** Recorded values as trees that unfold: with stubs where the server cut them. */

export type Path = readonly (string | number)[];

export interface Cut {
  readonly type: "text" | "list" | "object";
  readonly size: number;
  readonly shown: unknown;
}

export type Node =
  | { readonly kind: "leaf"; readonly text: string; readonly type: "text" | "number" | "word" }
  | {
      readonly kind: "branch";
      readonly open: "[" | "{";
      readonly entries: readonly (readonly [string | number, unknown])[];
      readonly size: number;
    };

/** A stub that stands for something longer. */
export function cutOf(value: unknown): Cut | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const keys = Object.keys(value);
  const cut = (value as Record<string, unknown>).$cut;
  return keys.length === 1 && typeof cut === "object" && cut !== null ? (cut as Cut) : null;
}

export function nodeOf(value: unknown): Node {
  const cut = cutOf(value);
  const shown = cut ? cut.shown : value;
  if (Array.isArray(shown))
    return {
      kind: "branch",
      open: "[",
      entries: shown.map((item, index) => [index, item] as const),
      size: cut?.size ?? shown.length,
    };
  if (typeof shown === "object" && shown !== null) {
    const special = specialOf(shown as Record<string, unknown>);
    if (special !== null) return { kind: "leaf", text: special, type: "number" };
    const entries = Object.entries(shown);
    return { kind: "branch", open: "{", entries, size: cut?.size ?? entries.length };
  }
  if (typeof shown === "string") return { kind: "leaf", text: shown, type: "text" };
  return { kind: "leaf", text: String(shown), type: typeof shown === "number" ? "number" : "word" };
}

/** Numbers that JSON cannot hold, as the store writes them. */
function specialOf(value: Record<string, unknown>): string | null {
  const keys = Object.keys(value);
  if (keys.length !== 1) return null;
  if (typeof value.$float === "string") return { nan: "NaN", inf: "∞", "-inf": "−∞" }[value.$float] ?? value.$float;
  if (typeof value.$int === "string") return BigIntText(value.$int);
  return null;
}

function BigIntText(hex: string): string {
  try {
    return hex.startsWith("-") ? `-${BigInt(hex.slice(1))}` : String(BigInt(hex));
  } catch {
    return hex;
  }
}

/** One line that stands for a folded branch. */
export function preview(value: unknown, most = 80): string {
  const node = nodeOf(value);
  if (node.kind === "leaf") return node.type === "text" ? JSON.stringify(clip(node.text, most)) : node.text;
  const close = node.open === "[" ? "]" : "}";
  let line = "";
  for (const [key, item] of node.entries) {
    const inner = nodeOf(item);
    const part = inner.kind === "leaf" ? preview(item, 32) : inner.open === "[" ? `[${inner.size}]` : "{…}";
    const next = `${line ? ", " : ""}${node.open === "{" ? `${key}: ` : ""}${part}`;
    if (line.length + next.length > most) return `${node.open}${line}, …${close}`;
    line += next;
  }
  return `${node.open}${line}${close}`;
}

function clip(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

export interface JsonPiece {
  readonly kind: "key" | "text" | "number" | "word" | "sign";
  readonly text: string;
}

const PIECES = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\b\d[\d.eE+-]*)|\b(true|false|null)\b|([^"\w-]+|[\s\S])/g;

/** JSON text in pieces, for colouring; text that is no JSON passes unchanged. */
export function jsonPieces(text: string): JsonPiece[] {
  return Array.from(text.matchAll(PIECES), (match): JsonPiece[] => {
    if (match[1] !== undefined && match[2] !== undefined)
      return [
        { kind: "key", text: match[1] },
        { kind: "sign", text: match[2] },
      ];
    if (match[1] !== undefined) return [{ kind: "text", text: match[1] }];
    if (match[3] !== undefined) return [{ kind: "number", text: match[3] }];
    if (match[4] !== undefined) return [{ kind: "word", text: match[4] }];
    return [{ kind: "sign", text: match[0] }];
  }).flat();
}

/** JSON as it reads best: on one line if it is short, with line ends if it is not; other text unchanged. */
export function prettyJson(text: string, oneLine = 100): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return text;
  }
  if (typeof value !== "object" || value === null) return text;
  const flat = spaced(value);
  return flat.length <= oneLine ? flat : JSON.stringify(value, null, 2);
}

function spaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`;
  if (typeof value === "object" && value !== null)
    return `{${Object.entries(value)
      .map(([key, item]) => `${JSON.stringify(key)}: ${spaced(item)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}

const FLAT_AT_MOST = 12;

/** Whether an object is a few plain values, each short enough for a line. */
export function isFlat(value: Readonly<Record<string, unknown>>): boolean {
  const items = Object.values(value);
  if (items.length > FLAT_AT_MOST || cutOf(value) !== null || specialOf({ ...value }) !== null) return false;
  return items.every((item) =>
    typeof item === "string" ? item.length <= 60 : typeof item !== "object" || item === null,
  );
}
