import { expect, test } from "vitest";
import type { Label } from "../api/types.gen";
import { counting, keyLabels, namesOf, saidBy, shown } from "./labels";

const label = (name: string, author: string, more: Partial<Label> = {}): Label => ({
  name,
  author,
  value: "yes",
  op_id: null,
  time_ns: 1,
  reason: null,
  counts: true,
  ...more,
});

test("each author has a last word on each place", () => {
  const labels = [
    label("hack", "ann", { counts: false }),
    label("hack", "bob"),
    label("hack", "ann", { value: null, counts: false }),
    label("hack", "ann", { op_id: "7" }),
  ];
  expect(saidBy(labels, "ann", null, "hack")).toBeUndefined();
  expect(saidBy(labels, "ann", "7", "hack")).toBe(labels[3]);
  expect(saidBy(labels, "bob", null, "hack")).toBe(labels[1]);
  expect(namesOf(labels, "7")).toEqual(["hack"]);
});

test("what counts is shown, notes last", () => {
  const labels = [
    label("note", "ann", { value: "look" }),
    label("hack", "ann"),
    label("bad", "bob", { counts: false }),
  ];
  expect(counting(labels).map(shown)).toEqual(["hack", "note=look"]);
});

test("nine labels have a key, each once", () => {
  expect(keyLabels(" good, bad,,good,note")).toEqual(["good", "bad"]);
  expect(keyLabels("a,b,c,d,e,f,g,h,i,j")).toHaveLength(9);
});
