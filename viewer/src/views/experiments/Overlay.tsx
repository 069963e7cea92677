import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { ask } from "../../api/client";
import { numbersOf } from "../../api/number";
import type { ExperimentRow } from "../../api/types.gen";
import { baseOfStore, currentBase } from "../../base";
import { measure, tick } from "../../model/format";
import { experimentPath, stepPath } from "../../model/route";
import { hue } from "../../model/scale";
import { aligned } from "../../model/series";
import { useText } from "../../text";
import { Chart } from "../../ui/Chart";
import { navigate } from "../../ui/url";

/** The rewards of several experiments on one axis of steps. */
export default function Overlay({ rows }: { rows: readonly ExperimentRow[] }) {
  const t = useText();
  const answers = useQueries({
    queries: rows.map(({ store, project, experiment }) => ({
      queryKey: [baseOfStore(store) || currentBase(), "/api/experiment", null, { project, experiment }],
      queryFn: () =>
        ask("/api/experiment", undefined, { project, experiment }, undefined, baseOfStore(store) || undefined),
    })),
  });
  const loaded = answers.map((answer) => answer.data);
  const stamp = answers.map((answer) => answer.dataUpdatedAt).join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the stamps say when the answers are others
  const { steps, columns } = useMemo(
    () =>
      aligned(
        loaded.map((each) => {
          const known = (each?.training.step ?? [])
            .map((step, index) => [step, index] as const)
            .filter(([step]) => step !== null);
          const values = numbersOf(each?.training.reward_mean ?? []);
          return {
            steps: known.map(([step]) => step as number),
            values: known.map(([, index]) => values[index] ?? null),
          };
        }),
      ),
    [stamp],
  );
  const open = (step: number) => {
    const row = rows.find((_, index) => loaded[index]?.training.step.includes(step));
    if (row) navigate(baseOfStore(row.store) + stepPath(row.project, row.experiment, step));
    else if (rows[0]) navigate(baseOfStore(rows[0].store) + experimentPath(rows[0].project, rows[0].experiment));
  };
  return (
    <div className="overlay-chart">
      <Chart
        title={t.experiments.overlay(rows.length)}
        x={steps}
        columns={columns}
        lines={rows.map((row, index) => ({
          label: (row.store === null ? row.experiment : `${row.store}: ${row.experiment}`).slice(0, 40),
          named: true,
          colour: `hsl(${hue(index)} 60% 52%)`,
        }))}
        format={(value) => measure(value)}
        formatTick={tick}
        formatX={String}
        sync="overlay"
        zoom={null}
        height={200}
        onZoom={() => undefined}
        onPick={open}
      />
    </div>
  );
}
