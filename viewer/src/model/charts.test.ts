import { expect, test } from "vitest";
import type { Experiment, Series } from "../api/types.gen";
import { chartsOf } from "./charts";

const words = {
  training: "training",
  validation: "validation",
  charts: {
    reward: "reward",
    pass: "pass",
    zero: "zero",
    tokens: "tokens",
    turns: "turns",
    tools: "tools",
    toolErrors: "tool errors",
    truncated: "truncated",
    duration: "duration",
    staleness: "staleness",
    flags: "flags",
    term: (name: string) => `term ${name}`,
  },
};

function series(part: Partial<Series>): Series {
  const steps = part.step?.length ?? 0;
  const empty = () => new Array(steps).fill(null);
  const base = new Proxy({ terms: {}, flags: {}, step: [] as (number | null)[], ...part } as Record<string, unknown>, {
    get: (target, name: string) => target[name] ?? empty(),
  });
  return base as unknown as Series;
}

test("charts without anything to show are left out; NaN leaves a gap", () => {
  const data = {
    training: series({
      step: [1, 2, null],
      reward_mean: [0.5, null, 0.1],
      terms: { format: [1, "nan", 1] },
      flags: { a: [1, 0, 0], b: [2, 3, 0], none: [0, 0, 0] },
    }),
    validation: series({ step: [2], reward_mean: [0.7] }),
  } as unknown as Experiment;
  const charts = chartsOf(data, words);
  expect(charts.map((chart) => chart.key)).toEqual(["reward", "term format", "flags"]);
  expect(charts[0]!.columns.slice(2)).toEqual([
    [0.5, null],
    [null, 0.7],
  ]);
  expect(charts[0]!.lines.at(-1)).toMatchObject({ dashed: true });
  expect(charts[2]!.lines.map((line) => line.label)).toEqual(["a", "b"]);
  expect(charts[2]!.columns).toEqual([
    [3, 3],
    [2, 3],
  ]);
  expect(charts[2]!.shown).toEqual([
    [1, 0],
    [2, 3],
  ]);
});

test("one rollout that took very long does not press the others to the ground", () => {
  const took = (most: number) => {
    const training = series({
      step: [1, 2],
      duration_s_p50: [1, 2],
      duration_s_p95: [2, 3],
      duration_s_max: [3, most],
    });
    const charts = chartsOf({ training, validation: series({}) } as Experiment, words);
    return charts.find((chart) => chart.key === "duration")!.lines.map((line) => line.loose);
  };
  expect(took(400)).toEqual([false, false, true]);
  expect(took(4)).toEqual([false, false, false]);
});

test("the chart of what passed says what passing means", () => {
  const titleWith = (passing: unknown) => {
    const data = { training: series({ step: [1], pass_rate: [0.5] }), validation: series({}), passing };
    return chartsOf(data as unknown as Experiment, words).find((chart) => chart.key === "pass")!.title;
  };
  expect(titleWith({ title: "pass", text: "pass: correct >= 1" })).toBe("pass: correct >= 1");
  expect(titleWith({ title: "reward > 0", text: "reward > 0" })).toBe("reward > 0");
});
