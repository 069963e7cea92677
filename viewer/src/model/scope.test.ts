import { expect, test } from "vitest";
import { asCommand, asFilter, asPython, queryOf, scopeOfIds } from "./scope";

const scope = {
  project: "maths",
  experiment: "it's",
  step: 120,
  where: "reward < 0.5 or flag is not null",
  order: "-std",
};

test("the place and the filter become one filter", () => {
  expect(asFilter(scope)).toBe(
    "project = 'maths' and experiment = 'it''s' and step = 120 and (reward < 0.5 or flag is not null)",
  );
});

test("a step that was never given is asked for as such", () => {
  expect(queryOf({ step: null, where: "a = 1 or b = 2" }).where).toBe("step is null and (a = 1 or b = 2)");
  expect(queryOf({ step: 3 }).step).toBe(3);
});

test("the same question in Python and on the command line", () => {
  expect(asPython("groups", scope, "/data/store")).toContain('experiment="it\'s"');
  expect(asPython("groups", scope, "/data/store")).toContain('order="-std"');
  expect(asCommand("groups", scope, "/data/my store")).toBe(
    "rolltrace groups '/data/my store' --project maths --experiment 'it'\\''s' --step 120 --where 'reward < 0.5 or flag is not null' --order=-std",
  );
});

test("certain trajectories are asked for by their ids, of whatever run", () => {
  const two = scopeOfIds(["aa", "bb"]);
  expect(asFilter(two)).toBe("trajectory_id in ('aa', 'bb')");
  expect(asCommand("trajectories", two, "s")).toBe(
    "rolltrace ls s --all-runs --where 'trajectory_id in ('\\''aa'\\'', '\\''bb'\\'')'",
  );
  expect(asPython("trajectories", two, "s")).toContain("all_runs=True");
});
