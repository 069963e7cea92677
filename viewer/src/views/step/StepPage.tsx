import { useCallback, useRef, useState } from "react";
import { useAnswer } from "../../api/hooks";
import type { GroupRecord, Groups, OlderRuns, Trajectories } from "../../api/types.gen";
import { rangeFrom } from "../../model/cells";
import { stepPath } from "../../model/route";
import { queryOf, type Scope, scopeOf, tableOf } from "../../model/scope";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { Segments } from "../../ui/Segments";
import { useStored } from "../../ui/stored";
import { navigate, setQuery, useUrl } from "../../ui/url";
import { useWriting } from "../labels/writing";
import { GroupRecords } from "../parts/GroupRecords";
import { OlderRunsNote } from "../parts/OlderRunsNote";
import { Facets } from "./Facets";
import { FilterBar } from "./FilterBar";
import { GroupsGrid } from "./GroupsGrid";
import "./step.css";
import { Summary } from "./Summary";
import { useSelection } from "./selection";
import { TrajectoryList } from "./TrajectoryList";

interface Props {
  project: string;
  experiment: string;
  step: string;
  sample: string | null;
}

const RECORDING_EVERY_MS = 4000;
/** An ended experiment changes too: it is pruned, scored, resumed. Asking is cheap, since answers have ETags. */
const ENDED_EVERY_MS = 10_000;
const NO_RECORDS: readonly GroupRecord[] = [];

export interface Totals {
  readonly groups: number | null;
  readonly trajectories: number;
  readonly older: OlderRuns;
  readonly page: Groups | Trajectories;
}

/** One training step: facets, and its trajectories as groups or as a list. */
export default function StepPage({ project, experiment, step, sample }: Props) {
  const t = useText();
  const { query } = useUrl();
  const view = tableOf(sample, query);
  const scope = scopeOf({ project, experiment, step, sample }, query);
  const { step: number = null, where = "", allRuns = false } = scope;
  const series = useAnswer("/api/experiment", { query: { project, experiment, all_runs: allRuns || undefined } });
  const check = useAnswer("/api/filter/check", { query: { where }, enabled: where !== "", keep: false });
  const usable = where === "" || check.data?.valid === true;
  // While a filter is looked at, and if it is wrong, what was there stays.
  const lastUsable = useRef<string | null>(null);
  if (usable) lastUsable.current = where;
  else if (check.data) lastUsable.current ??= ""; // opened with a wrong filter: all there is
  const shownScope: Scope | null = lastUsable.current === null ? null : { ...scope, where: lastUsable.current };
  const recording = series.data?.state === "recording";
  const every = recording ? RECORDING_EVERY_MS : ENDED_EVERY_MS;
  const { where: _, ...place } = queryOf(scope);
  const records = useAnswer("/api/group_records", { query: place, every, enabled: number !== null });
  const selection = useSelection();
  const writing = useWriting();
  const filter = useRef<HTMLInputElement>(null);
  const [dimStored, setDim] = useStored("dim-zero-variance");
  const dim = dimStored !== "no";
  const [totals, setTotals] = useState<Totals | null>(null);
  const ofGroups = useCallback(
    (page: Groups) =>
      setTotals({ groups: page.totals.groups, trajectories: page.totals.trajectories, older: page.older_runs, page }),
    [],
  );
  const ofList = useCallback(
    (page: Trajectories) => setTotals({ groups: null, trajectories: page.total, older: page.older_runs, page }),
    [],
  );
  const steps = (series.data?.training.step ?? []).concat(series.data?.validation.step ?? []);
  const known = [...new Set(steps.filter((each) => each !== null))].sort((a, b) => a - b);
  const neighbourStep = (by: number) => {
    if (number === null) return undefined;
    return by > 0 ? known.find((each) => each > number) : known.findLast((each) => each < number);
  };
  const goTo = (by: number) => {
    const next = neighbourStep(by);
    if (next === undefined) return;
    const search = new URLSearchParams(query);
    search.delete("sel");
    navigate(`${stepPath(project, experiment, next, sample)}${search.size ? `?${search}` : ""}`);
  };
  const toggleView = () => setQuery({ view: view === "groups" ? "list" : "groups", sort: null });
  useKeys([
    { keys: "f", label: t.keys.filter, run: () => filter.current?.focus() },
    { keys: "v", label: t.keys.groups, run: toggleView },
    { keys: "[", label: t.keys.previousStep, run: () => goTo(-1) },
    { keys: "]", label: t.keys.nextStep, run: () => goTo(1) },
    ...(writing.refusal === null ? writing.names : []).map((name, index) => ({
      keys: String(index + 1),
      label: t.labels.give(name),
      run: () => {
        const marked = selection.ids.length > 0 ? selection.ids : selection.at ? [selection.at] : [];
        if (marked.length > 0) void writing.write(marked, null, name);
      },
    })),
  ]);
  const range = rangeFrom(series.data?.reward_range);
  return (
    <div className="step-page">
      <Facets scope={shownScope ?? scope} range={range} enabled={shownScope !== null} every={every} />
      <div className="step-main">
        <OlderRunsNote older={totals?.older} allRuns={allRuns} />
        <div className="step-bar">
          <FilterBar
            where={where}
            place={{ project, experiment, step: number ?? undefined }}
            inputRef={filter}
            onApply={(next) => setQuery({ where: next })}
          />
          <Segments
            label={t.step.view}
            value={view}
            options={[
              { value: "groups", label: t.step.groups },
              { value: "list", label: t.step.list },
            ]}
            onChange={(next) => setQuery({ view: next, sort: null })}
          />
        </div>
        <Summary
          scope={scope}
          totals={totals}
          experiment={series.data}
          view={view}
          dim={dim}
          onDim={() => setDim(dim ? "no" : null)}
          selection={selection}
          onStep={goTo}
          hasStep={(by) => neighbourStep(by) !== undefined}
        />
        {sample !== null && <GroupRecords records={records.data?.records ?? NO_RECORDS} />}
        {writing.problem && <div className="err label-problem">{writing.problem.message}</div>}
        {shownScope === null ? null : view === "list" ? (
          <TrajectoryList scope={shownScope} range={range} selection={selection} every={every} onFirst={ofList} />
        ) : (
          <GroupsGrid
            scope={shownScope}
            range={range}
            selection={selection}
            dim={dim}
            records={records.data?.records ?? NO_RECORDS}
            every={every}
            onFirst={ofGroups}
          />
        )}
      </div>
    </div>
  );
}
