import { expect, test } from "vitest";
import { cellLook, rangeFrom } from "./cells";

const range = { min: 0, max: 1 };

test("a reward is a place on the scale, NaN and none are not", () => {
  expect(cellLook({ reward: 1, status: "ok" }, range).fill).toBe("rgb(253 231 37)");
  expect(cellLook({ reward: "nan", status: "ok" }, range)).toMatchObject({ fill: null, nan: true });
  expect(cellLook({ reward: null, status: "running" }, range)).toMatchObject({
    fill: null,
    nan: false,
    mark: "running",
  });
});

test("before the scale is known a reward has no colour of it", () => {
  expect(cellLook({ reward: 1, status: "ok" }, null).fill).toBe("var(--line)");
});

test("errors, cuts and flags are marked, and not twice", () => {
  expect(cellLook({ reward: 0, status: "error", truncated: true, flags: ["cut_by_length"] }, range)).toMatchObject({
    mark: "error",
    cut: true,
    flagged: false,
    light: false,
  });
  expect(cellLook({ reward: 0, status: "ok", flags: ["prefix_break"] }, range).flagged).toBe(true);
});

test("the scale begins at zero unless rewards are below it", () => {
  expect(rangeFrom([0.2, 1])).toEqual({ min: 0, max: 1 });
  expect(rangeFrom([-1, 1])).toEqual({ min: -1, max: 1 });
  expect(rangeFrom(null)).toBe(null);
});
