import { expect, test } from "vitest";
import { aligned, changeOver, lastKnown, stacked } from "./series";

test("the change since ten steps before, or since the nearest step before that", () => {
  const steps = [0, 10, 20, 25];
  expect(changeOver(steps, [0.1, 0.2, 0.5, 0.6], 20, 10)).toBeCloseTo(0.3);
  expect(changeOver(steps, [0.1, 0.2, 0.5, 0.6], 25, 10)).toBeCloseTo(0.4);
  expect(changeOver(steps, [0.1, 0.2, 0.5, 0.6], 0, 10)).toBe(null);
  expect(changeOver(steps, [null, 0.2, 0.5, 0.6], 10, 10)).toBe(null);
});

test("lines of different steps share one axis, gaps stay gaps", () => {
  const { steps, columns } = aligned([
    { steps: [0, 1, 2], values: [1, Number.NaN, 3] },
    { steps: [1, 5], values: [10, 50] },
  ]);
  expect(steps).toEqual([0, 1, 2, 5]);
  expect(columns).toEqual([
    [1, null, 3, null],
    [null, 10, null, 50],
  ]);
});

test("stacks and last values", () => {
  expect(
    stacked([
      [1, 2],
      [3, null],
    ]),
  ).toEqual([
    [1, 2],
    [4, 2],
  ]);
  expect(lastKnown([1, 2, null, Number.NaN])).toBe(2);
});
