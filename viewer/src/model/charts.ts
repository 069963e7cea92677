/** Which charts an experiment has, from the columns that hold something. */
import { numbersOf, type WireNumber } from "../api/number";
import type { Experiment, Series } from "../api/types.gen";
import { passCaption } from "./passing";
import { aligned, type Line, stacked } from "./series";

export interface ChartSpec {
  readonly key: string;
  readonly title: string;
  readonly unit: "measure" | "share" | "count" | "mean" | "seconds";
  readonly steps: readonly number[];
  readonly columns: readonly (readonly (number | null)[])[];
  readonly lines: readonly SpecLine[];
  readonly bands?: readonly (readonly [number, number])[];
  readonly shown?: readonly (readonly (number | null)[])[];
}

interface SpecLine {
  readonly label: string;
  readonly colour: string;
  readonly dashed?: boolean;
  readonly hidden?: boolean;
  readonly filled?: boolean;
  readonly width?: number;
  readonly named?: boolean;
  readonly loose?: boolean;
}

export interface ChartWords {
  readonly training: string;
  readonly validation: string;
  readonly charts: {
    readonly [Name in
      | "reward"
      | "pass"
      | "zero"
      | "tokens"
      | "turns"
      | "tools"
      | "toolErrors"
      | "truncated"
      | "duration"
      | "staleness"
      | "flags"]: string;
  } & { readonly term: (name: string) => string };
}

type Column = (series: Series) => readonly (WireNumber | null)[] | undefined;

const FLAG_COLOURS = ["#c2703d", "#5b7fc7", "#8a6d1d", "#a04f86", "#3c8f7c", "#7a7c85", "#b5544f", "#6b5bd2"];
const FLAGS_SHOWN = 7;
/** One rollout that took so many times as long as the others would press them all to the ground. */
const OUTLIER = 5;

export function chartsOf(data: Experiment, words: ChartWords): ChartSpec[] {
  const plain = (key: string, title: string, unit: ChartSpec["unit"], column: Column) =>
    both(data, words, key, title, unit, column);
  const { charts } = words;
  const terms = [...new Set([...Object.keys(data.training.terms), ...Object.keys(data.validation.terms)])].sort();
  return [
    rewards(data, words),
    ...terms.map((name) => plain(`term ${name}`, charts.term(name), "measure", (series) => series.terms[name])),
    plain("pass", passCaption(data.passing, charts.pass), "share", (series) => series.pass_rate),
    plain("zero", charts.zero, "share", (series) => series.zero_variance_share),
    quantiles(data, "tokens", charts.tokens, "count", [
      ["p50", (series) => series.response_tokens_p50],
      ["p95", (series) => series.response_tokens_p95],
    ]),
    plain("turns", charts.turns, "mean", (series) => series.turns_mean),
    plain("tools", charts.tools, "mean", (series) => series.tool_calls_mean),
    plain("toolErrors", charts.toolErrors, "share", (series) => series.tool_error_rate),
    plain("truncated", charts.truncated, "share", (series) => series.truncated_share),
    quantiles(data, "duration", charts.duration, "seconds", [
      ["p50", (series) => series.duration_s_p50],
      ["p95", (series) => series.duration_s_p95],
      ["max", (series) => series.duration_s_max],
    ]),
    plain("staleness", charts.staleness, "mean", (series) => series.staleness_mean),
    flags(data, words),
  ].filter((chart) => chart.columns.some((column) => column.some((value) => value !== null)));
}

function lineOf(series: Series, column: Column): Line {
  const values = numbersOf([...(column(series) ?? [])]);
  const known = series.step.flatMap((step, index) => (step === null ? [] : [[step, values[index] ?? null] as const]));
  return { steps: known.map(([step]) => step), values: known.map(([, value]) => value) };
}

function isEmpty(line: Line): boolean {
  return line.values.every((value) => value === null);
}

function both(
  data: Experiment,
  words: ChartWords,
  key: string,
  title: string,
  unit: ChartSpec["unit"],
  column: Column,
): ChartSpec {
  const training = lineOf(data.training, column);
  const validation = lineOf(data.validation, column);
  const { steps, columns } = aligned([training, ...(isEmpty(validation) ? [] : [validation])]);
  const lines = [
    { label: words.training, colour: "--accent" },
    { label: words.validation, colour: "--accent", dashed: true },
  ].slice(0, columns.length);
  return { key, title, unit, steps, columns, lines };
}

function rewards(data: Experiment, words: ChartWords): ChartSpec {
  const validation = lineOf(data.validation, (series) => series.reward_mean);
  const { steps, columns } = aligned([
    lineOf(data.training, (series) => series.reward_p90),
    lineOf(data.training, (series) => series.reward_p10),
    lineOf(data.training, (series) => series.reward_mean),
    ...(isEmpty(validation) ? [] : [validation]),
  ]);
  const lines = [
    { label: "p90", colour: "--accent", hidden: true },
    { label: "p10", colour: "--accent", hidden: true },
    { label: words.training, colour: "--accent" },
    { label: words.validation, colour: "--accent", dashed: true },
  ].slice(0, columns.length);
  return { key: "reward", title: words.charts.reward, unit: "measure", steps, columns, lines, bands: [[0, 1]] };
}

function quantiles(
  data: Experiment,
  key: string,
  title: string,
  unit: ChartSpec["unit"],
  parts: readonly (readonly [string, Column])[],
): ChartSpec {
  const { steps, columns } = aligned(parts.map(([, column]) => lineOf(data.training, column)));
  const colours = ["--accent", "--llm", "--mark"];
  const [highest = 0, ...others] = columns.map((column) => Math.max(0, ...column.map((value) => value ?? 0))).reverse();
  return {
    key,
    title,
    unit,
    steps,
    columns,
    lines: parts.map(([label], index) => ({
      label,
      colour: colours[index]!,
      width: index === 0 ? 1.5 : 1,
      named: true,
      loose: index === parts.length - 1 && highest > OUTLIER * Math.max(...others),
    })),
  };
}

function flags(data: Experiment, words: ChartWords): ChartSpec {
  const totals = Object.entries(data.training.flags)
    .map(([name, counts]) => [name, counts.reduce((sum, n) => sum + n, 0)] as const)
    .filter(([, total]) => total > 0)
    .sort(([, a], [, b]) => b - a)
    .slice(0, FLAGS_SHOWN);
  const { steps, columns } = aligned(totals.map(([name]) => lineOf(data.training, (series) => series.flags[name])));
  // The tallest stack is drawn first, so that the others lie on it.
  const order = totals.map((_, index) => totals.length - 1 - index);
  const sums = stacked(columns);
  return {
    key: "flags",
    title: words.charts.flags,
    unit: "count",
    steps,
    columns: order.map((index) => sums[index]!),
    shown: order.map((index) => columns[index]!),
    lines: order.map((index) => ({
      label: totals[index]![0],
      colour: FLAG_COLOURS[index % FLAG_COLOURS.length]!,
      filled: true,
      width: 0,
      named: true,
    })),
  };
}
