/** Word differences between two texts. */
import { diffArrays } from "diff";

export interface DiffPiece {
  readonly text: string;
  readonly differs: boolean;
}

export interface Diff {
  readonly left: readonly DiffPiece[];
  readonly right: readonly DiffPiece[];
}

/** Words, runs of space, and single signs; Chinese and Japanese go character by character, as they have no spaces. */
const WORDS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}_]+|\s+|[\s\S]/gu;
const LONGEST = 200_000;
/** Not a time: a busy machine would show other differences. So many take about 50 ms. */
const MOST_EDITS = 900;
/** Sentences and lines, where the words of two texts have little in common. */
const SENTENCES = /[^\n.!?。!?]*(?:[\n.!?。!?]+\s*|$)/gu;
const MOST_KNOWN = 200;

const known = new Map<string, Diff>();

/** The same, remembered: both sides of a comparison ask, and each time they are drawn. */
export function knownDiff(left: string, right: string): Diff {
  const key = JSON.stringify([left, right]);
  const diff = known.get(key) ?? wordDiff(left, right);
  known.delete(key);
  known.set(key, diff);
  if (known.size > MOST_KNOWN) known.delete(known.keys().next().value!);
  return diff;
}

export function wordDiff(left: string, right: string): Diff {
  if (left === right) return { left: [{ text: left, differs: false }], right: [{ text: right, differs: false }] };
  const changes =
    left.length + right.length > LONGEST
      ? endsOf(left.match(SENTENCES) ?? [], right.match(SENTENCES) ?? [])
      : (changesBy(WORDS, left, right) ??
        changesBy(SENTENCES, left, right) ??
        endsOf(left.match(WORDS) ?? [], right.match(WORDS) ?? []));
  const pieces: { left: DiffPiece[]; right: DiffPiece[] } = { left: [], right: [] };
  for (const { value, added, removed } of changes) {
    const text = value.join("");
    if (!added) pieces.left.push({ text, differs: removed });
    if (!removed) pieces.right.push({ text, differs: added });
  }
  return { left: joinedOverSpace(pieces.left), right: joinedOverSpace(pieces.right) };
}

function changesBy(unit: RegExp, left: string, right: string) {
  return diffArrays(left.match(unit) ?? [], right.match(unit) ?? [], { maxEditLength: MOST_EDITS });
}

/** Which tokens of each side the other does not have in their place. */
export function tokenDiff(left: readonly number[], right: readonly number[]): { left: boolean[]; right: boolean[] } {
  const changes = diffArrays([...left], [...right], { maxEditLength: MOST_EDITS });
  const marks: { left: boolean[]; right: boolean[] } = { left: [], right: [] };
  for (const { value, added, removed } of changes ?? endsOf(left, right)) {
    if (!added) marks.left.push(...value.map(() => removed));
    if (!removed) marks.right.push(...value.map(() => added));
  }
  return marks;
}

interface Change<T> {
  readonly value: readonly T[];
  readonly added: boolean;
  readonly removed: boolean;
}

/** Where a full comparison would take too long: what is the same at both ends, and the rest. */
function endsOf<T>(a: readonly T[], b: readonly T[]): Change<T>[] {
  let start = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  return [
    { value: a.slice(0, start), added: false, removed: false },
    { value: a.slice(start, a.length - end), added: false, removed: true },
    { value: b.slice(start, b.length - end), added: true, removed: false },
    { value: a.slice(a.length - end), added: false, removed: false },
  ].filter((change) => change.value.length > 0);
}

/** Two differences with nothing but a space between them read better as one. */
function joinedOverSpace(pieces: readonly DiffPiece[]): DiffPiece[] {
  const result: DiffPiece[] = [];
  pieces.forEach((piece, index) => {
    const last = result.at(-1);
    const bridges = !piece.differs && last?.differs && pieces[index + 1]?.differs && piece.text.trim() === "";
    const differs = piece.differs || Boolean(bridges);
    if (last && last.differs === differs) result[result.length - 1] = { text: last.text + piece.text, differs };
    else result.push({ text: piece.text, differs });
  });
  return result;
}
