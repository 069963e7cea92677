/** Sorting the experiments: they are few, so this needs no question to the server. */
import { numberOf } from "../api/number";
import type { ExperimentRow } from "../api/types.gen";

export type SortKey = "name" | "state" | "steps" | "trajectories" | "reward" | "lost" | "size" | "duration" | "runs";

const VALUES: Record<SortKey, (row: ExperimentRow) => number | string> = {
  name: (row) => `${row.project}/${row.experiment}`,
  state: (row) => ["ended", "interrupted", "recording"].indexOf(row.state),
  steps: (row) => row.steps,
  trajectories: (row) => row.trajectories,
  reward: (row) => numberOf(row.reward_last) ?? Number.NEGATIVE_INFINITY,
  lost: (row) => row.lost,
  size: (row) => row.size_bytes,
  duration: (row) => row.end_ns - row.start_ns,
  runs: (row) => row.runs.length,
};

/** Newest first unless another order is wanted. */
export function sortedExperiments(rows: readonly ExperimentRow[], order: string | null): ExperimentRow[] {
  const key = order?.replace(/^-/, "") as SortKey | undefined;
  const value = key ? VALUES[key] : undefined;
  if (!value) return [...rows];
  const sign = order!.startsWith("-") ? -1 : 1;
  return [...rows].sort((a, b) => sign * compare(value(a), value(b)));
}

function compare(a: number | string, b: number | string): number {
  if (typeof a === "string" || typeof b === "string") return String(a).localeCompare(String(b));
  return a === b ? 0 : a < b ? -1 : 1;
}
