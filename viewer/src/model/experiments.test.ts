import { expect, test } from "vitest";
import type { ExperimentRow } from "../api/types.gen";
import { sortedExperiments } from "./experiments";

const row = (experiment: string, reward_last: ExperimentRow["reward_last"]): ExperimentRow =>
  ({ project: "p", experiment, reward_last, runs: [] }) as unknown as ExperimentRow;

test("experiments are sorted by what is asked for, without a reward last", () => {
  const rows = [row("b", 0.5), row("a", null), row("c", 0.9)];
  const names = (order: string | null) => sortedExperiments(rows, order).map((each) => each.experiment);
  expect(names("-reward")).toEqual(["c", "b", "a"]);
  expect(names("name")).toEqual(["a", "b", "c"]);
  expect(names(null)).toEqual(["b", "a", "c"]);
  expect(names("-nonsense")).toEqual(["b", "a", "c"]);
});
