import { expect, test } from "vitest";
import { covered, heights, rangeOfBars } from "./histogram";

const bars = { edges: [0, 0.25, 0.5, 0.75, 1], counts: [3, 0, 1, 9] };

test("a bar that is not empty is seen beside a tall one", () => {
  expect(heights([10_000, 1, 0])[1]).toBeGreaterThan(0.05);
  expect(heights([10_000, 1, 0])[2]).toBe(0);
});

test("a brushed range covers the bars it was drawn over, whichever way it was drawn", () => {
  expect(rangeOfBars(bars, 2, 1)).toEqual([0.25, 0.75]);
  expect(covered(bars, [0.25, 0.75])).toEqual([1, 2]);
  expect(covered(bars, rangeOfBars(bars, 0, 3))).toEqual([0, 3]);
  expect(covered(bars, rangeOfBars(bars, 3, 3))).toEqual([3, 3]);
  expect(covered(bars, [2, 3])).toBe(null);
  expect(covered(bars, null)).toBe(null);
});
