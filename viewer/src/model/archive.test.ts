import { expect, test } from "vitest";
import { questionOf, unpacked } from "./archive";

test("references are followed, and what is shared is one object", () => {
  const values = unpacked(["a long text", { role: "user", content: [0] }, [[1], [1], 7, null, [], {}], { list: [2] }]);
  const message = { role: "user", content: "a long text" };
  expect(values[3]).toEqual({ list: [message, message, 7, null, [], {}] });
  expect((values[2] as unknown[])[0]).toBe((values[2] as unknown[])[1]);
});

test("keys that mean something to JavaScript are keys", () => {
  const [value] = unpacked([JSON.parse('{"__proto__": 1, "constructor": 2}')]);
  expect(Object.entries(value as object)).toEqual([
    ["__proto__", 1],
    ["constructor", 2],
  ]);
});

test("a question is spelled in one way", () => {
  expect(questionOf("/api/compare?ids=b%2Ca")).toBe("/api/compare a,b");
  expect(questionOf("/api/trajectories?order=-reward&limit=200")).toBe("/api/trajectories");
  expect(questionOf("/api/trajectory/x/tokens?start=0&end=50000")).toBe("/api/trajectory/x/tokens 0");
  const path = '["a b","é+&",0]';
  const href = `/api/trajectory/x/op/5/branch?${new URLSearchParams({ part: "inputs", path, offset: "0" })}`;
  expect(questionOf(href)).toBe(`/api/trajectory/x/op/5/branch inputs ${path}`);
});
