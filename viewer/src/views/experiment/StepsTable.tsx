import { useVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, useLayoutEffect, useMemo, useRef, useState } from "react";
import { numberOf } from "../../api/number";
import type { Experiment, Series } from "../../api/types.gen";
import { count, MISSING, measure, percent, seconds, short } from "../../model/format";
import { neighbour } from "../../model/order";
import { passCaption, passTitle } from "../../model/passing";
import { stepPath } from "../../model/route";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { Link } from "../../ui/Link";
import { navigate, setAnchor, useUrl } from "../../ui/url";
import { CopyAs } from "../parts/CopyAs";
import { FlagChips } from "../parts/Flags";

interface Row {
  readonly series: Series;
  readonly index: number;
  readonly validation: boolean;
  readonly key: string;
}

interface Props {
  data: Experiment;
  scroller: RefObject<HTMLDivElement | null>;
  zoom: [number, number] | null;
  scope: { project: string; experiment: string };
}

const ROW = 28;
const HEADS = [
  "trajectories",
  "samples",
  "reward",
  "range",
  "pass",
  "zero",
  "tokens",
  "turns",
  "toolErrors",
  "truncated",
  "duration",
  "errors",
  "lost",
] as const;

/** One row a step, the newest first; validation beside training. */
export function StepsTable({ data, scroller, zoom, scope }: Props) {
  const t = useText();
  const rows = useMemo(() => rowsOf(data, zoom), [data, zoom]);
  const box = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the charts above may have changed their number
  useLayoutEffect(() => setMargin(box.current?.offsetTop ?? 0), [data]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 10,
    scrollMargin: margin,
  });
  const at = useUrl().anchor.get("at");
  const move = (by: number) => {
    const next = neighbour(rows, (row) => row.key === at, by);
    if (!next) return;
    setAnchor({ at: next.key });
    virtual.scrollToIndex(rows.indexOf(next), { align: "auto" });
  };
  const pathOf = (row: Row) => {
    const path = stepPath(scope.project, scope.experiment, row.series.step[row.index] ?? null);
    return row.validation ? `${path}?where=${encodeURIComponent("validate = true")}` : path;
  };
  const here = rows.find((row) => row.key === at);
  useKeys([
    { keys: "j", label: t.keys.next, run: () => move(1) },
    { keys: "k", label: t.keys.previous, run: () => move(-1) },
    { keys: "Enter", label: t.keys.open, run: () => here && navigate(pathOf(here)) },
  ]);
  return (
    <div className="steps">
      <div className="steps-head">
        <span className="dim">{t.experiment.steps(new Set(rows.map((row) => row.series.step[row.index])).size)}</span>
        <span className="grow" />
        <CopyAs listing="steps" scope={scope} />
      </div>
      <div role="table" aria-rowcount={rows.length + 1} aria-label={t.experiment.steps(rows.length)}>
        <div className="steps-row grid-head sticky" role="row">
          <span role="columnheader" className="head num" tabIndex={-1}>
            {t.experiment.table.step}
          </span>
          {HEADS.map((word) => (
            <span
              key={word}
              role="columnheader"
              className="head num"
              tabIndex={-1}
              title={word === "pass" ? passCaption(data.passing, t.experiment.table.pass) : undefined}
            >
              {word === "pass" ? passTitle(data.passing, t.experiment.table.pass) : t.experiment.table[word]}
            </span>
          ))}
          <span role="columnheader" className="head" tabIndex={-1}>
            {t.experiment.table.flags}
          </span>
        </div>
        <div ref={box} role="rowgroup" style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index]!;
            return (
              <div
                key={row.key}
                role="row"
                aria-rowindex={item.index + 2}
                className={`steps-row line${row.key === at ? " here" : ""}`}
                style={{ transform: `translateY(${item.start - margin}px)` }}
                onClick={(event) => !(event.target as Element).closest("a") && navigate(pathOf(row))}
              >
                <span role="cell" className="num">
                  {row.validation && <span className="chip quiet val">{t.frame.validationShort}</span>}
                  <Link href={pathOf(row)}>{row.series.step[row.index] ?? MISSING}</Link>
                </span>
                {cellsOf(row).map((cell, index) => (
                  <span key={HEADS[index]} role="cell" className={`num${index >= 11 && cell !== "0" ? " err" : ""}`}>
                    {cell}
                  </span>
                ))}
                <span role="cell">
                  <FlagChips flags={flagsOf(row)} most={2} />
                </span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function rowsOf(data: Experiment, zoom: [number, number] | null): Row[] {
  const rows: Row[] = [];
  for (const [series, validation] of [
    [data.training, false],
    [data.validation, true],
  ] as const)
    series.step.forEach((step, index) => {
      if (zoom && (step === null || step < zoom[0] || step > zoom[1])) return;
      rows.push({
        series,
        index,
        validation,
        key: `${validation ? "v" : ""}${step ?? "none"}.${series.run[index] ?? ""}`,
      });
    });
  const stepOf = (row: Row) => row.series.step[row.index] ?? -1;
  return rows.sort((a, b) => stepOf(b) - stepOf(a) || Number(a.validation) - Number(b.validation));
}

function cellsOf({ series, index }: Row): string[] {
  const number = (values: readonly (number | "nan" | "inf" | "-inf" | null)[]) => numberOf(values[index] ?? null);
  const [low, high] = [number(series.reward_p10), number(series.reward_p90)];
  return [
    count(series.trajectories[index]),
    count(series.samples[index]),
    measure(number(series.reward_mean)),
    low === null ? MISSING : `${measure(low)}–${measure(high)}`,
    percent(number(series.pass_rate)),
    percent(number(series.zero_variance_share)),
    short(Math.round(number(series.response_tokens_p50) ?? Number.NaN) || null),
    measure(number(series.turns_mean), 1),
    percent(number(series.tool_error_rate)),
    percent(number(series.truncated_share)),
    seconds(number(series.duration_s_p95)),
    count(series.errors[index]),
    count(series.lost[index]),
  ];
}

function flagsOf({ series, index }: Row): string[] {
  return Object.entries(series.flags)
    .map(([flag, counts]) => [flag, counts[index] ?? 0] as const)
    .filter(([, n]) => n > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([flag, n]) => `${flag} ${n}`);
}
