import { expect, test } from "vitest";
import { tableIn } from "./tables";

test("a list of flat objects is a table", () => {
  expect(tableIn('[{"id": "A", "seats": 4}, {"id": "B", "seats": null, "price": 1.5}]')).toEqual({
    columns: ["id", "seats", "price"],
    rows: [
      ["A", "4", ""],
      ["B", "", "1.5"],
    ],
  });
});

test("anything else is not: one row, rows inside rows, rows that have little in common, a text that was cut", () => {
  expect(tableIn('[{"id": 1}]')).toBe(null);
  expect(tableIn('[{"id": {"a": 1}}, {"id": 2}]')).toBe(null);
  expect(tableIn('[{"a": 1}, {"b": 1, "c": 2, "d": 3}]')).toBe(null);
  expect(tableIn('[{"id": 1}, {"id"')).toBe(null);
  expect(tableIn("[1, 2]")).toBe(null);
});
