import { useMemo, useRef } from "react";
import { useAnswer } from "../../api/hooks";
import type { Experiment } from "../../api/types.gen";
import { type ChartSpec, chartsOf } from "../../model/charts";
import { count, measure, percent, seconds, short, tick, tickSeconds } from "../../model/format";
import { stepPath } from "../../model/route";
import { useText } from "../../text";
import { Chart } from "../../ui/Chart";
import { navigate, setQuery, useUrl } from "../../ui/url";
import { OlderRunsNote } from "../parts/OlderRunsNote";
import { PassChoice } from "../parts/PassChoice";
import { ProblemPanel } from "../parts/Problem";
import "./experiment.css";
import { Figures } from "./Figures";
import { StepsTable } from "./StepsTable";

const FORMATS: Record<ChartSpec["unit"], (value: number) => string> = {
  measure: (value) => measure(value),
  share: percent,
  count: short,
  mean: (value) => measure(value, 1),
  seconds,
};

const TICKS: Record<ChartSpec["unit"], (value: number) => string> = {
  measure: tick,
  share: percent,
  count: short,
  mean: tick,
  seconds: tickSeconds,
};

/** An experiment over its steps: figures, small multiples with one crosshair, the table of steps. */
export default function ExperimentPage({ project, experiment }: { project: string; experiment: string }) {
  const t = useText();
  const { query } = useUrl();
  const allRuns = query.get("runs") === "all";
  const run = query.get("run");
  const known = useAnswer("/api/experiments");
  const recording =
    known.data?.rows.find((row) => row.project === project && row.experiment === experiment)?.state === "recording";
  const answer = useAnswer("/api/experiment", {
    query: { project, experiment, run: run ?? undefined, all_runs: allRuns || undefined },
    every: recording ? 4000 : false,
  });
  const page = useRef<HTMLDivElement>(null);
  const charts = useMemo(() => (answer.data ? chartsOf(answer.data, t.experiment) : []), [answer.data, t]);
  const zoom = parseZoom(query.get("x"));
  if (answer.error && !answer.data)
    return <ProblemPanel problem={answer.error} onRetry={() => void answer.refetch()} />;
  if (!answer.data) return <Waiting />;
  const open = (step: number) => navigate(stepPath(project, experiment, step));
  const onZoom = (range: [number, number] | null) => setQuery({ x: range ? range.join("-") : null });
  return (
    <div className="experiment-page" ref={page}>
      <OlderRunsNote older={answer.data.older_runs} allRuns={allRuns} />
      <Figures data={answer.data} />
      <div className="chart-bar dim">
        <span>
          <i className="key-line" /> {t.experiment.training} <i className="key-line dashed" /> {t.experiment.validation}
        </span>
        <span className="grow" />
        <PassChoice data={answer.data} />
        <RunChoice data={answer.data} run={run} />
        {zoom ? (
          <button type="button" className="button small" onClick={() => onZoom(null)}>
            {t.experiment.zoomOut}
          </button>
        ) : (
          <span className="hints">{t.experiment.zoomHint}</span>
        )}
      </div>
      <div className="charts">
        {charts.map((chart) => (
          <Chart
            key={chart.key}
            title={chart.title}
            x={chart.steps}
            columns={chart.columns}
            lines={chart.lines}
            bands={chart.bands}
            shown={chart.shown}
            format={FORMATS[chart.unit]}
            formatTick={TICKS[chart.unit]}
            formatX={String}
            fromZero={chart.unit !== "measure"}
            sync="experiment"
            zoom={zoom}
            onZoom={onZoom}
            onPick={open}
          />
        ))}
      </div>
      <StepsTable data={answer.data} scroller={page} zoom={zoom} scope={{ project, experiment }} />
    </div>
  );
}

function RunChoice({ data, run }: { data: Experiment; run: string | null }) {
  const t = useText();
  if (data.runs.length < 2) return null;
  return (
    <label className="run-choice">
      <span className="sr">{t.experiment.runs(data.runs.length)}</span>
      <select value={run ?? ""} onChange={(event) => setQuery({ run: event.target.value || null })}>
        <option value="">{t.experiment.newest}</option>
        {data.runs.map((each, index) =>
          each.run === null ? null : (
            <option key={each.run} value={each.run}>
              {t.experiment.run(index + 1, data.runs.length)} · {count(each.trajectories)} · {each.run}
            </option>
          ),
        )}
      </select>
    </label>
  );
}

function Waiting() {
  return (
    <div className="experiment-page late" aria-hidden>
      <div className="figures">
        <div className="skeleton" style={{ height: 44, width: "100%" }} />
      </div>
      <div className="charts">
        {Array.from({ length: 9 }, (_, index) => (
          <div key={index} className="skeleton" style={{ height: 136 }} />
        ))}
      </div>
    </div>
  );
}

function parseZoom(text: string | null): [number, number] | null {
  const match = /^(-?\d+)-(-?\d+)$/.exec(text ?? "");
  return match ? [Number(match[1]), Number(match[2])] : null;
}
