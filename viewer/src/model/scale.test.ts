import { expect, test } from "vitest";
import { isLight, leaning, share, surprise, viridis } from "./scale";

test("the ends of the reward scale are dark violet and yellow", () => {
  expect(viridis(0)).toBe("rgb(68 1 84)");
  expect(viridis(1)).toBe("rgb(253 231 37)");
  expect([isLight(0), isLight(1)]).toEqual([false, true]);
});

test("values are placed in the range of the experiment", () => {
  expect(share(0.5, { min: 0, max: 1 })).toBe(0.5);
  expect(share(-3, { min: 0, max: 1 })).toBe(0);
  expect(share(Infinity, { min: 0, max: 1 })).toBe(1);
  expect(share(1, { min: 1, max: 1 })).toBe(1);
});

test("certain tokens are not marked, impossible ones fully", () => {
  expect([surprise(0), surprise(-2.5), surprise(-Infinity), surprise(Number.NaN)]).toEqual([0, 0.5, 1, 1]);
});

test("an advantage leans to its side, none not at all", () => {
  expect(leaning(0)).toBe(0);
  expect(leaning(-1)).toBe(-0.5);
  expect(leaning(-9)).toBe(-1);
});
