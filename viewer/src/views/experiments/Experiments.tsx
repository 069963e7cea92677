import { useMemo } from "react";
import { useAnswer } from "../../api/hooks";
import { numberOf } from "../../api/number";
import type { ExperimentRow } from "../../api/types.gen";
import { baseOfStore } from "../../base";
import { type SortKey, sortedExperiments } from "../../model/experiments";
import { directionOf, neighbour, nextOrder, toggledIn } from "../../model/order";
import { experimentPath } from "../../model/route";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { later } from "../../ui/later";
import { script } from "../../ui/script";
import { navigate, setAnchor, setQuery, useUrl } from "../../ui/url";
import { CopyAs } from "../parts/CopyAs";
import { ProblemPanel } from "../parts/Problem";
import { EmptyStore } from "./EmptyStore";
import { ExperimentLine } from "./ExperimentLine";
import "./experiments.css";

const Overlay = later(
  script(() => import("./Overlay")),
  () => <div className="overlay-chart" />,
);
const COLUMNS: readonly [keyof ReturnType<typeof useText>["experiments"], SortKey | null, boolean][] = [
  ["name", "name", false],
  ["state", "state", false],
  ["steps", "steps", true],
  ["trajectories", "trajectories", true],
  ["reward", "reward", false],
  ["flags", null, false],
  ["lost", "lost", true],
  ["size", "size", true],
  ["duration", "duration", true],
  ["runs", "runs", true],
];

/** All experiments of the store: which are alive, how they do. Several can be selected to lay their rewards over each other. */
export default function Experiments() {
  const t = useText();
  const url = useUrl();
  const status = useAnswer("/api/status");
  const answer = useAnswer("/api/experiments", { every: status.data?.recording ? 4000 : 15000 });
  const order = url.query.get("sort");
  const rows = useMemo(() => sortedExperiments(answer.data?.rows ?? [], order), [answer.data, order]);
  const selected = (url.query.get("sel") ?? "").split(",").filter(Boolean);
  const at = url.anchor.get("at");
  const toggle = (key: string) => setQuery({ sel: toggledIn(selected, key, 8).join(",") }, { replace: true });
  const move = (by: number) => {
    const next = neighbour(rows, (row) => keyOf(row) === at, by);
    if (next) setAnchor({ at: keyOf(next) });
  };
  const here = rows.find((row) => keyOf(row) === at);
  useKeys([
    { keys: "j", label: t.keys.next, run: () => move(1) },
    { keys: "k", label: t.keys.previous, run: () => move(-1) },
    { keys: "x", label: t.keys.select, run: () => at && toggle(at) },
    {
      keys: "Enter",
      label: t.keys.open,
      run: () => here && navigate(baseOfStore(here.store) + experimentPath(here.project, here.experiment)),
    },
  ]);
  if (answer.error && !answer.data)
    return <ProblemPanel problem={answer.error} onRetry={() => void answer.refetch()} />;
  if (answer.data && rows.length === 0) return <EmptyStore path={status.data?.store_path ?? ""} />;
  if (!answer.data) return <div className="experiments-wait skeleton late" aria-busy />;
  const chosen = rows.filter((row) => selected.includes(keyOf(row)));
  return (
    <div className="experiments">
      <h1 className="sr">{t.experiments.title}</h1>
      {chosen.length > 1 && <Overlay rows={chosen} />}
      <div className="summary">
        <span className="dim">{t.experiments.rows(rows.length)}</span>
        <span className="grow" />
        <CopyAs listing="experiments" scope={{}} />
      </div>
      <div className="table-scroll">
        <table className="lines">
          <thead>
            <tr>
              <th className="check">
                <span className="sr">{t.step.select}</span>
              </th>
              {COLUMNS.map(([word, key, numeric]) => (
                <th
                  key={word}
                  className={numeric ? "head num" : "head"}
                  aria-sort={key ? directionOf(order, key) : undefined}
                >
                  {key ? (
                    <button type="button" onClick={() => setQuery({ sort: nextOrder(order, key) })}>
                      {t.experiments[word] as string}
                      {{ ascending: " ↑", descending: " ↓", none: "" }[directionOf(order, key)]}
                    </button>
                  ) : (
                    (t.experiments[word] as string)
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <ExperimentLine
                key={keyOf(row)}
                row={row}
                reward={numberOf(row.reward_last)}
                here={keyOf(row) === at}
                selected={selected.includes(keyOf(row))}
                nowNs={status.data?.now_ns ?? Date.now() * 1e6}
                onSelect={() => toggle(keyOf(row))}
              />
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function keyOf(row: ExperimentRow): string {
  const parts = row.store === null ? [row.project, row.experiment] : [row.store, row.project, row.experiment];
  return parts.map((part) => encodeURIComponent(part)).join("/");
}
