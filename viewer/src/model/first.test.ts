import { expect, test } from "vitest";
import { firstQuestions } from "./first";

function asked(href: string): string[] {
  const url = new URL(href, "http://localhost");
  return firstQuestions(url.pathname, url.searchParams, new URLSearchParams(url.hash.slice(1)));
}

test("a step asks for its groups, or for its trajectories", () => {
  expect(asked("/e/maths/grpo/step/3")).toEqual(["/api/groups?project=maths&experiment=grpo&step=3&limit=200"]);
  expect(asked("/e/maths/grpo/step/3?view=list&sort=-reward")).toEqual([
    "/api/trajectories?project=maths&experiment=grpo&step=3&order=-reward&limit=200",
  ]);
  expect(asked("/e/maths/grpo/step/3/sample/17")).toEqual([
    "/api/trajectories?project=maths&experiment=grpo&step=3&sample_index=17&limit=200",
  ]);
});

test("a filter is checked before anything is asked with it", () => {
  expect(asked("/e/maths/grpo/step/3?where=reward+%3C+1")).toEqual([]);
});

test("a trajectory asks for what its tab shows", () => {
  expect(asked("/t/ab")).toEqual(["/api/trajectory/ab", "/api/trajectory/ab/conversation"]);
  expect(asked("/t/ab?tab=tokens")).toEqual(["/api/trajectory/ab", "/api/trajectory/ab/tokens?start=0&end=50000"]);
  expect(asked("/t/ab?tab=tokens#tok=70000")).toEqual(["/api/trajectory/ab"]);
});

test("the other pages ask when they are there", () => {
  expect(asked("/")).toEqual(["/api/experiments"]);
  expect(asked("/live")).toEqual([]);
});
