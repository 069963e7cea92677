import { expect, test } from "vitest";
import type { LiveRow } from "../api/types.gen";
import { merged, paceOf } from "./live";

const row = (trajectory_id: string, start_ns: number): LiveRow => ({ trajectory_id, start_ns }) as unknown as LiveRow;

test("a row that ended stays in its place for a moment", () => {
  const first = merged([], [row("a", 1), row("b", 2), row("c", 3)], 0);
  const second = merged(first, [row("a", 1), row("c", 3), row("d", 4)], 500);
  expect(second.map((each) => each.row.trajectory_id)).toEqual(["a", "b", "c", "d"]);
  expect(second[1]!.endedAt).toBe(500);
  expect(merged(second, [row("c", 3)], 4000).map((each) => each.row.trajectory_id)).toEqual(["a", "c", "d"]);
  expect(merged(second, [row("c", 3)], 4000).find((each) => each.row.trajectory_id === "b")).toBe(undefined);
});

test("hung and slow are told apart by what is usual", () => {
  expect(paceOf({ op_age_s: 1, op_p95_s: 2 })).toBe("fine");
  expect(paceOf({ op_age_s: 3, op_p95_s: 2 })).toBe("slow");
  expect(paceOf({ op_age_s: 30, op_p95_s: 2 })).toBe("hung");
  expect(paceOf({ op_age_s: 1, op_p95_s: 0.01 })).toBe("slow");
  expect(paceOf({ op_age_s: 30, op_p95_s: null })).toBe("unknown");
});
