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

type Waiting = Pick<LiveRow, "op_age_s" | "op_p95_s" | "idle_s" | "idle_p95_s">;

/** How long it has been in its op or between two, whichever is more unusual, and what is usual at most. */
export function waitOf(row: Waiting): { seconds: number | null; usual: number | null } {
  const inOp = { seconds: row.op_age_s, usual: row.op_p95_s };
  const between = { seconds: row.idle_s, usual: row.idle_p95_s };
  const excess = (wait: typeof inOp) => (wait.seconds !== null && wait.usual ? wait.seconds / wait.usual : 0);
  return row.op_age_s === null || excess(between) > excess(inOp) ? between : inOp;
}
