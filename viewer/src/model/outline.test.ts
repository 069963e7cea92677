import { expect, test } from "vitest";
import type { OutlineOp } from "../api/types.gen";
import { barOf, nextOp, ticks, unfolded, wholeWindow, zoomed } from "./outline";

const op = (
  op_id: string,
  parent_id: string | null,
  offset_s: number,
  duration_s: number | null,
  status = "ok",
): OutlineOp => ({ op_id, parent_id, offset_s, duration_s, status }) as unknown as OutlineOp;
const ops = [op("a", null, 0, 10), op("b", "a", 1, 2, "error"), op("c", "b", 1, 1), op("d", null, 8, null)];

test("bars lie where the ops happened", () => {
  const whole = wholeWindow(ops, null);
  expect(whole).toEqual({ from: 0, to: 10 });
  expect(barOf(ops[1]!, whole, 10)).toEqual({ left: 0.1, width: expect.closeTo(0.2) });
  expect(barOf(ops[3]!, whole, 9)).toEqual({ left: 0.8, width: expect.closeTo(0.1) });
  expect(barOf(ops[1]!, { from: 5, to: 6 }, 10)).toBe(null);
});

test("zooming stays inside the whole and keeps the point under the pointer", () => {
  const whole = { from: 0, to: 10 };
  const once = zoomed(whole, whole, 0.25, 0.5);
  expect(once.from + 0.25 * (once.to - once.from)).toBeCloseTo(2.5);
  expect(zoomed(once, whole, 0.5, 100)).toEqual(whole);
});

test("marks of the axis are round", () => {
  expect(ticks({ from: 0, to: 10 }, 5)).toEqual([0, 2, 4, 6, 8, 10]);
});

test("what is folded hides all that is inside", () => {
  expect(unfolded(ops, new Set(["a"])).map((each) => each.op_id)).toEqual(["a", "d"]);
  expect(unfolded(ops, new Set(["b"])).map((each) => each.op_id)).toEqual(["a", "b", "d"]);
});

test("the next error is found, going round", () => {
  expect(nextOp(ops, "c", (each) => each.status === "error")?.op_id).toBe("b");
  expect(nextOp(ops, null, (each) => each.status === "cancelled")).toBe(undefined);
});
