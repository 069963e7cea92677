/** The ops of a trajectory: what the outline lists, where errors and flags are, and bars on a time axis. */
import type { OutlineOp } from "../api/types.gen";

export interface Window {
  readonly from: number;
  readonly to: number;
}

/** From the start of the trajectory to the end of its last op; ops that still run reach to `now`. */
export function wholeWindow(ops: readonly OutlineOp[], durationS: number | null): Window {
  const ends = ops.map((op) => op.offset_s + (op.duration_s ?? 0));
  return { from: 0, to: Math.max(durationS ?? 0, ...ends, 1e-6) };
}

/** Left edge and width of an op's bar, in shares of the window; null outside of it. */
export function barOf(op: OutlineOp, window: Window, now: number): { left: number; width: number } | null {
  const size = window.to - window.from;
  const start = (op.offset_s - window.from) / size;
  const end = (op.offset_s + (op.duration_s ?? Math.max(0, now - op.offset_s)) - window.from) / size;
  if (end < 0 || start > 1) return null;
  const left = Math.max(0, start);
  return { left, width: Math.max(0, Math.min(1, end) - left) };
}

/** Zooms around a point of the window (a share of it), never beyond the whole. */
export function zoomed(window: Window, whole: Window, around: number, factor: number): Window {
  const size = Math.min((window.to - window.from) * factor, whole.to - whole.from);
  const point = window.from + around * (window.to - window.from);
  const from = Math.min(Math.max(whole.from, point - around * size), whole.to - size);
  return { from, to: from + Math.max(size, 1e-7) };
}

/** Round marks for a time axis, about so many. */
export function ticks(window: Window, about: number): number[] {
  const rough = (window.to - window.from) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough) ?? rough;
  const marks: number[] = [];
  for (let mark = Math.ceil(window.from / step) * step; mark <= window.to; mark += step) marks.push(mark);
  return marks;
}

/** Ids of the ops that have children. */
export function parents(ops: readonly OutlineOp[]): Set<string> {
  return new Set(ops.flatMap((op) => (op.parent_id === null ? [] : [op.parent_id])));
}

/** What is seen when some ops are folded: those without a folded ancestor. */
export function unfolded(ops: readonly OutlineOp[], folded: ReadonlySet<string>): OutlineOp[] {
  const hidden = new Set<string>();
  return ops.filter((op) => {
    const inside = op.parent_id !== null && (hidden.has(op.parent_id) || folded.has(op.parent_id));
    if (inside) hidden.add(op.op_id);
    return !inside;
  });
}

export function isFailed(status: string): boolean {
  return status === "error" || status === "interrupted";
}

/** The next op after the current one that fits, going round. */
export function nextOp(
  ops: readonly OutlineOp[],
  current: string | null,
  fits: (op: OutlineOp) => boolean,
): OutlineOp | undefined {
  const at = ops.findIndex((op) => op.op_id === current);
  return [...ops.slice(at + 1), ...ops.slice(0, at + 1)].find(fits);
}
