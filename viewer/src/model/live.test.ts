import { expect, test } from "vitest";
import type { LiveRow } from "../api/types.gen";
import { merged, waitOf } from "./live";

const row = (trajectory_id: string, start_ns: number): LiveRow => ({ trajectory_id, start_ns }) as unknown as LiveRow;

test("a row that ended stays in its place for a moment", () => {
  const first = merged([], [row("a", 1), row("b", 2), row("c", 3)], 0);
  const second = merged(first, [row("a", 1), row("c", 3), row("d", 4)], 500);
  expect(second.map((each) => each.row.trajectory_id)).toEqual(["a", "b", "c", "d"]);
  expect(second[1]!.endedAt).toBe(500);
  expect(merged(second, [row("c", 3)], 4000).map((each) => each.row.trajectory_id)).toEqual(["a", "c", "d"]);
  expect(merged(second, [row("c", 3)], 4000).find((each) => each.row.trajectory_id === "b")).toBe(undefined);
});

test("the more unusual of the time in an op and between ops is shown", () => {
  const usual = { op_p95_s: 2, idle_p95_s: 4 };
  expect(waitOf({ ...usual, op_age_s: 1, idle_s: null })).toEqual({ seconds: 1, usual: 2 });
  expect(waitOf({ ...usual, op_age_s: 1, idle_s: 40 })).toEqual({ seconds: 40, usual: 4 });
  expect(waitOf({ ...usual, op_age_s: 100, idle_s: 40 })).toEqual({ seconds: 100, usual: 2 });
  expect(waitOf({ op_age_s: null, op_p95_s: null, idle_s: 3, idle_p95_s: null })).toEqual({ seconds: 3, usual: null });
});
