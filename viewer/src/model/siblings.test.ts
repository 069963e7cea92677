import { expect, test } from "vitest";
import type { Cell, SampleStep } from "../api/types.gen";
import { bestAndWorst, sibling, stepNeighbour } from "./siblings";

const cells = [
  ["a", 0.2],
  ["b", "nan"],
  ["c", 1],
  ["d", null],
].map(([trajectory_id, reward]) => ({ trajectory_id, reward }) as unknown as Cell);

test("a walk through siblings ends at both ends", () => {
  expect(sibling(cells, "a", 1)).toBe("b");
  expect(sibling(cells, "a", -1)).toBe(undefined);
  expect(sibling(cells, "d", 1)).toBe(undefined);
});

test("best and worst leave out what has no reward to compare", () => {
  expect(bestAndWorst(cells)).toEqual(["c", "a"]);
  expect(bestAndWorst(cells.slice(0, 2))).toBe(null);
});

test("the same sample at the nearest step before and after", () => {
  const steps = [1, 3, 7, null].map((step) => ({ step }) as unknown as SampleStep);
  expect(stepNeighbour(steps, 3, 1)?.step).toBe(7);
  expect(stepNeighbour(steps, 3, -1)?.step).toBe(1);
  expect(stepNeighbour(steps, 7, 1)).toBe(undefined);
  expect(stepNeighbour(steps, null, 1)).toBe(undefined);
});
