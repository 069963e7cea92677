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
  const group = { siblings: cells, group_records: [] };
  expect(sibling(group, "a", 1)).toBe("b");
  expect(sibling(group, "a", -1)).toBe(undefined);
  expect(sibling(group, "d", 1)).toBe(undefined);
});

test("a walk through siblings goes on to the records of their group", () => {
  const group = { siblings: cells, group_records: [{ trajectory_id: "r" }] };
  expect(sibling(group, "d", 1)).toBe("r");
  expect(sibling(group, "r", -1)).toBe("d");
  expect(sibling(group, "r", 1)).toBe(undefined);
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
