import { expect, test } from "vitest";
import { barLengths } from "./bars";

test("bars share one scale, which reaches to one at least", () => {
  expect(barLengths([0.5, 0.25])).toEqual([0.5, 0.25]);
  expect(barLengths([2, -1, "late", Number.NaN])).toEqual([1, 0.5, 0, 0]);
});

test("a length in characters does not hide the shares beside it", () => {
  expect(barLengths([1, 0.5, 200, 50])).toEqual([1, 0.5, 1, 0.25]);
});
