import { expect, test } from "vitest";
import { earlierValues } from "./earlier";

test("a step that nobody amended has no earlier values", () => {
  expect(earlierValues({ earlier: [], fields: { metrics: { a: 1 } } }).size).toBe(0);
});

test("what was replaced stands with the time until which it held, the newest first", () => {
  const earlier = [
    { time_ns: 10, values: { reward: 0.1 } },
    { time_ns: 20, values: { reward: 0.2, stop_reason: null } },
  ];
  const values = earlierValues({ earlier, fields: {}, reward: 0.3, stop_reason: "won" });
  expect(values.get("reward")).toEqual([
    { value: 0.2, until_ns: 20 },
    { value: 0.1, until_ns: 10 },
  ]);
  expect(values.get("stop_reason")).toEqual([{ value: null, until_ns: 20 }]);
});

test("of metrics only the keys that were changed are told", () => {
  const earlier = [
    { time_ns: 10, values: { metrics: { moves: 5 } } },
    { time_ns: 20, values: { metrics: { moves: 5, won: 0 } } },
  ];
  const values = earlierValues({ earlier, fields: { metrics: { moves: 5, won: 1 } } });
  expect(values.get("metrics")).toEqual([
    { value: { won: 0 }, until_ns: 20 },
    { value: { won: null }, until_ns: 10 },
  ]);
});
