/** What runs right now, so that rows do not jump under the reader's eyes. */
import type { LiveRow } from "../api/types.gen";

export interface ShownRow {
  readonly row: LiveRow;
  /** When it was missing for the first time, in milliseconds; null while it runs. */
  readonly endedAt: number | null;
}

/** How long a row that ended stays where it was. */
const STAYS_MS = 3000;

/** The new rows in the order of their start; those that are gone stay for a moment, marked. */
export function merged(before: readonly ShownRow[], rows: readonly LiveRow[], nowMs: number): ShownRow[] {
  const present = new Set(rows.map((row) => row.trajectory_id));
  const leaving = before
    .filter((shown) => !present.has(shown.row.trajectory_id))
    .map((shown) => ({ row: shown.row, endedAt: shown.endedAt ?? nowMs }))
    .filter((shown) => nowMs - shown.endedAt < STAYS_MS);
  const running = rows.map((row) => ({ row, endedAt: null }));
  return [...running, ...leaving].sort(
    (a, b) => a.row.start_ns - b.row.start_ns || a.row.trajectory_id.localeCompare(b.row.trajectory_id),
  );
}

export type Pace = "fine" | "slow" | "hung" | "unknown";

const HUNG_TIMES = 10;
const HUNG_AT_LEAST_S = 5;

/** Slow is longer than 95 of 100 such ops; hung is ten times that, and more than a moment. */
export function paceOf(row: Pick<LiveRow, "op_age_s" | "op_p95_s">): Pace {
  if (row.op_age_s === null || row.op_p95_s === null) return "unknown";
  if (row.op_age_s <= row.op_p95_s) return "fine";
  return row.op_age_s > Math.max(HUNG_AT_LEAST_S, HUNG_TIMES * row.op_p95_s) ? "hung" : "slow";
}
