import { expect, test } from "vitest";
import { directionOf, neighbour, nextOrder, sortedRows, toggledIn } from "./order";

test("clicks on a column's head go round", () => {
  expect(nextOrder(null, "std")).toBe("-std");
  expect(nextOrder("-std", "std")).toBe("std");
  expect(nextOrder("std", "std")).toBe(null);
  expect(nextOrder("std", "mean")).toBe("-mean");
  expect(directionOf("-std", "std")).toBe("descending");
});

test("a walk stays inside the list", () => {
  const items = ["a", "b", "c"];
  expect(neighbour(items, (x) => x === "b", 1)).toBe("c");
  expect(neighbour(items, (x) => x === "c", 1)).toBe("c");
  expect(neighbour(items, (x) => x === "none", 1)).toBe("a");
  expect(neighbour([], () => true, 1)).toBe(undefined);
});

test("a selection has a limit", () => {
  expect(toggledIn(["a"], "b", 2)).toEqual(["a", "b"]);
  expect(toggledIn(["a", "b"], "c", 2)).toEqual(["a", "b"]);
  expect(toggledIn(["a", "b"], "a", 2)).toEqual(["b"]);
});

test("rows are sorted as the server sorts them: what is not known comes last, either way", () => {
  const rows = [{ reward: 0.5 }, { reward: null }, { reward: "inf" }, { reward: 2 }, { reward: "nan" }];
  expect(sortedRows(rows, "reward").map((row) => row.reward)).toEqual([0.5, 2, "inf", null, "nan"]);
  expect(sortedRows(rows, "-reward").map((row) => row.reward)).toEqual(["inf", 2, 0.5, null, "nan"]);
});
