/** The token sequence of a trajectory: its pieces, and the blocks in which it is laid out. */
import { numberOf, type WireNumber } from "../api/number";
import type { Segment, TokenBreak, TokenRange } from "../api/types.gen";

/** Longer sequences are read in windows of so many tokens. */
export const TOKENS_AT_ONCE = 50_000;
export const FIRST_TOKENS = { start: 0, end: TOKENS_AT_ONCE } as const;

export interface Tokens {
  readonly start: number;
  readonly total: number;
  readonly ids: readonly number[];
  /** The text of each token; null without text. Empty for a token inside of a character. */
  readonly pieces: readonly string[] | null;
  readonly logprobs: readonly (number | null)[];
  readonly mask: readonly (number | null)[];
  readonly segments: readonly Segment[];
  readonly breaks: readonly TokenBreak[];
}

export interface Block {
  /** Index of its first token in the whole sequence. */
  readonly start: number;
  readonly end: number;
  readonly segment: Segment | null;
  /** The first block of its segment names the turn. */
  readonly opens: boolean;
  readonly break: TokenBreak | null;
}

export function tokensOf(range: TokenRange): Tokens {
  return {
    start: range.start,
    total: range.total,
    ids: range.ids,
    pieces: range.text !== null && range.piece_chars ? piecesOf(range.text, range.piece_chars) : null,
    logprobs: range.logprobs.map((value) => numberOf(value as WireNumber | null)),
    mask: range.mask,
    segments: range.segments,
    breaks: range.breaks,
  };
}

/** The tokens that a model call produced. */
export interface Reply {
  readonly tokens: Tokens;
  /** Index of its first token in the whole sequence. */
  readonly start: number;
  readonly ids: readonly number[];
}

const known = new WeakMap<TokenRange, Tokens>();

/** Null if they are not among those that were read. */
export function replyOf(range: TokenRange, opId: string): Reply | null {
  const segment = range.segments.find((each) => each.op_id === opId && each.kind === "response");
  if (!segment || segment.start < range.start || segment.end > range.end) return null;
  const tokens = known.get(range) ?? tokensOf(range);
  known.set(range, tokens); // the replies of all turns are asked for one after the other
  return { tokens, start: segment.start, ids: range.ids.slice(segment.start - range.start, segment.end - range.start) };
}

/** Cuts the text at the given numbers of characters (code points). */
export function piecesOf(text: string, lengths: readonly number[]): string[] {
  let at = 0;
  return lengths.map((length) => {
    const from = at;
    for (let taken = 0; taken < length && at < text.length; taken += 1) at += text.codePointAt(at)! > 0xffff ? 2 : 1;
    return text.slice(from, at);
  });
}

const SHORTEST = 80;
const LONGEST = 240;

/** Blocks of some ten lines, so that a frame draws little that is not in sight: each inside one segment, and ending at a line's end where there is one. */
export function blocksOf(tokens: Tokens): Block[] {
  const blocks: Block[] = [];
  const end = tokens.start + tokens.ids.length;
  const breaks = new Map(tokens.breaks.map((each) => [each.at, each]));
  const boundaries = new Set([...tokens.segments.flatMap((segment) => [segment.start, segment.end]), ...breaks.keys()]);
  let segmentIndex = 0;
  let from = tokens.start;
  while (from < end) {
    while (tokens.segments[segmentIndex] && tokens.segments[segmentIndex]!.end <= from) segmentIndex += 1;
    const candidate = tokens.segments[segmentIndex];
    const segment = candidate && candidate.start <= from ? candidate : null;
    let to = from + 1;
    while (to < end && !boundaries.has(to) && !isGoodEnd(tokens, from, to)) to += 1;
    blocks.push({ start: from, end: to, segment, opens: segment?.start === from, break: breaks.get(from) ?? null });
    from = to;
  }
  return blocks;
}

function isGoodEnd(tokens: Tokens, from: number, to: number): boolean {
  if (to - from >= LONGEST) return true;
  return to - from >= SHORTEST && (tokens.pieces?.[to - 1 - tokens.start]?.endsWith("\n") ?? false);
}

/** Which block holds a token. */
export function blockAt(blocks: readonly Block[], index: number): number {
  let low = 0;
  let high = blocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (blocks[middle]!.start <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}

export function segmentAt(segments: readonly Segment[], index: number): Segment | null {
  return segments.find((segment) => segment.start <= index && index < segment.end) ?? null;
}

/** A piece as one could type it: spaces seen, line ends and control characters spelled out. */
export function escaped(piece: string): string {
  return JSON.stringify(piece).replace(
    // What would turn the text around it the other way, or is not seen at all.
    /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Probability from a logprob. */
export function probability(logprob: number): string {
  const p = Math.exp(logprob);
  if (p >= 0.0995) return p.toFixed(2);
  return p >= 0.001 ? p.toFixed(3) : p.toExponential(1);
}
