import { expect, test } from "vitest";
import { comparePath, experimentPath, pageOf, stepPath, trajectoryPath } from "./route";

test("an experiment's address leads back to its names, whatever is in them", () => {
  for (const name of ["grpo-7b", "a/b", "..", ".", "", "?x=1#y", "100 %", "实验", "~", "<script>", "a%2Fb", "%25"]) {
    const path = new URL(experimentPath("maths", name), "http://host").pathname;
    expect(pageOf(path)).toEqual({ name: "experiment", project: "maths", experiment: name });
    expect(path).not.toContain("%2F"); // proxies take it for a slash
  }
});

test("steps and samples are in the address", () => {
  expect(pageOf(stepPath("p", "e", 120))).toEqual({
    name: "step",
    project: "p",
    experiment: "e",
    step: "120",
    sample: null,
  });
  expect(pageOf(stepPath("p", "e", null, "a/b"))).toMatchObject({ step: "none", sample: "a/b" });
});

test("other pages", () => {
  expect(pageOf("/")).toEqual({ name: "experiments" });
  expect(pageOf(trajectoryPath("3f2a"))).toEqual({ name: "trajectory", id: "3f2a" });
  expect(pageOf("/live")).toEqual({ name: "live" });
  expect(comparePath(["a", "b"])).toBe("/compare?ids=a,b");
  expect(pageOf("/no/such")).toEqual({ name: "unknown", path: "/no/such" });
  expect(pageOf("/t/%E0%A4%A")).toEqual({ name: "trajectory", id: "%E0%A4%A" });
});
