import { expect, test } from "vitest";
import {
  conditions,
  hasCondition,
  joined,
  literal,
  named,
  pieces,
  pointsBefore,
  rangeOf,
  toggled,
  unitsBefore,
  withRange,
} from "./where";

test("a click on a facet adds its condition, a second click takes it out", () => {
  const once = toggled("reward < 0.5", "flag = 'prefix_break'");
  expect(once).toBe("reward < 0.5 and flag = 'prefix_break'");
  expect(hasCondition(once, "flag  =  'prefix_break'")).toBe(true);
  expect(toggled(once, "flag = 'prefix_break'")).toBe("reward < 0.5");
  expect(toggled("", "status = 'ok'")).toBe("status = 'ok'");
});

test("words inside text and parentheses do not split a filter", () => {
  expect(conditions("text ~ 'this and that' and (a = 1 or b = 2) and c = 'it''s'")).toEqual([
    "text ~ 'this and that'",
    "(a = 1 or b = 2)",
    "c = 'it''s'",
  ]);
});

test("a filter with or keeps its meaning when a condition is added", () => {
  expect(toggled("step = 1 or step = 2", "validate = true")).toBe("(step = 1 or step = 2) and validate = true");
  expect(joined(["a = 1 or b = 2"])).toBe("a = 1 or b = 2");
});

test("a brush sets, moves and clears a range", () => {
  const brushed = withRange("status = 'ok'", "reward", [0.25, 0.75]);
  expect(brushed).toBe("status = 'ok' and reward >= 0.25 and reward <= 0.75");
  expect(rangeOf(brushed, "reward")).toEqual([0.25, 0.75]);
  expect(withRange(brushed, "reward", [0, 1])).toBe("status = 'ok' and reward >= 0 and reward <= 1");
  expect(withRange(brushed, "reward", null)).toBe("status = 'ok'");
  expect(rangeOf("reward < 1", "turns")).toBe(null);
});

test("values are quoted as the language wants them", () => {
  expect(literal("it's \\ here")).toBe("'it''s \\\\ here'");
  expect([literal(0.1), literal(Number.NaN), literal(-Infinity), literal(true)]).toEqual([
    "0.1",
    "nan",
    "-inf",
    "true",
  ]);
  expect([named("tag", "level"), named("tag", "odd name")]).toEqual(["tag.level", 'tag."odd name"']);
});

test("pieces of a filter, complete or not, hold all of its text", () => {
  for (const where of ["reward < 0.5 and flag = 'prefix_break'", "text ~ 'unfinished", "§ <= -1e-3", ""])
    expect(
      pieces(where)
        .map((piece) => piece.text)
        .join(""),
    ).toBe(where);
  expect(pieces("flag = 'x'").map((piece) => piece.kind)).toEqual(["field", "space", "operator", "space", "text"]);
});

test("positions are converted where characters take two units", () => {
  expect(pointsBefore("a😀b", 3)).toBe(2);
  expect(unitsBefore("a😀b", 2)).toBe(3);
});
