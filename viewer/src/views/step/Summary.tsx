import { numberOf, numbersOf } from "../../api/number";
import type { Experiment } from "../../api/types.gen";
import { change, measure } from "../../model/format";
import { queryOf, type Scope } from "../../model/scope";
import { changeOver } from "../../model/series";
import { useText } from "../../text";
import { Menu } from "../../ui/Menu";
import { setQuery, useUrl } from "../../ui/url";
import { CopyAs } from "../parts/CopyAs";
import { PassChoice } from "../parts/PassChoice";
import { ShareLink } from "../parts/ShareLink";
import { COLUMNS, chosenColumns } from "./columns";
import type { Totals } from "./StepPage";
import { MOST_COMPARED, type Selection } from "./selection";

interface Props {
  scope: Scope;
  totals: Totals | null;
  experiment: Experiment | undefined;
  view: string;
  dim: boolean;
  onDim: () => void;
  selection: Selection;
  onStep: (by: number) => void;
  hasStep: (by: number) => boolean;
}

/** The line between filter and table: how many there are, how they do, and what can be done with them. */
export function Summary(props: Props) {
  const { scope, totals, selection } = props;
  const series = props.experiment?.training;
  const t = useText();
  const page = totals?.page;
  const mean = page && "totals" in page ? numberOf(page.totals.reward_mean) : null;
  const noVariance = page && "totals" in page ? page.totals.zero_variance_share : null;
  const trend =
    series && typeof scope.step === "number" && !scope.where
      ? changeOver(series.step, numbersOf(series.reward_mean), scope.step, 10)
      : null;
  return (
    <div className="summary">
      <button
        type="button"
        className="button bare icon small"
        disabled={!props.hasStep(-1)}
        aria-label={t.step.previous}
        title={`${t.step.previous}  [`}
        onClick={() => props.onStep(-1)}
      >
        ‹
      </button>
      <button
        type="button"
        className="button bare icon small"
        disabled={!props.hasStep(1)}
        aria-label={t.step.next}
        title={`${t.step.next}  ]`}
        onClick={() => props.onStep(1)}
      >
        ›
      </button>
      {totals && (
        <span className="dim cut">
          {totals.groups === null
            ? t.step.total(totals.trajectories)
            : t.step.totals(totals.groups, totals.trajectories)}
          {mean !== null && ` · ${t.step.mean(measure(mean))}`}
          {mean !== null && trend !== null && (
            <span className={trend > 0 ? "good" : ""}>
              {" "}
              {change(trend)} {t.experiment.inTenSteps}
            </span>
          )}
          {noVariance !== null && ` · ${t.step.noVariance(noVariance)}`}
        </span>
      )}
      <span className="grow" />
      <SelectionActions selection={selection} />
      <PassChoice data={props.experiment} />
      {props.view === "list" ? (
        <ColumnsMenu />
      ) : (
        <button
          type="button"
          className="button small bare"
          aria-pressed={props.dim}
          onClick={props.onDim}
          title={t.step.dim}
        >
          <span className={`tick${props.dim ? " on" : ""}`} aria-hidden /> {t.step.dimShort}
        </button>
      )}
      {scope.sample !== null && scope.sample !== undefined && <ShareLink query={queryOf(scope)} />}
      <CopyAs listing={props.view === "list" ? "trajectories" : "groups"} scope={scope} />
    </div>
  );
}

/** What can be done with what is selected; as long as nothing is, the keys that select. */
export function SelectionActions({ selection }: { selection: Selection }) {
  const t = useText();
  const n = selection.ids.length;
  if (n === 0) {
    return (
      <span className="dim hints">
        <kbd>x</kbd> {t.step.select} <kbd>c</kbd> {t.step.compare} <kbd>?</kbd> {t.step.keys}
      </span>
    );
  }
  return (
    <>
      <span className="dim">{n >= MOST_COMPARED ? t.step.tooMany : t.step.selected(n)}</span>
      <button type="button" className="button small primary" disabled={n < 2} onClick={selection.compare}>
        {t.step.compareSelected(n)}
      </button>
      <button type="button" className="button small bare" onClick={selection.clear}>
        {t.step.clearSelection}
      </button>
    </>
  );
}

export function ColumnsMenu() {
  const t = useText();
  const chosen = chosenColumns(useUrl().query.get("cols")).map((column) => column.name);
  const toggle = (name: string) => {
    const next = chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name];
    setQuery({ cols: next.join(",") || null }, { replace: true });
  };
  return (
    <Menu
      label={t.step.columns}
      title={t.step.columns}
      stay
      choices={COLUMNS.map((column) => ({
        label: t.columns[column.name] ?? column.name,
        checked: chosen.includes(column.name),
        run: () => toggle(column.name),
      }))}
    />
  );
}
