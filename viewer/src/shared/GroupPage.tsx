import { useState } from "react";
import { useAnswer } from "../api/hooks";
import { numberOf } from "../api/number";
import type { GroupRecord, Groups } from "../api/types.gen";
import { rangeFrom } from "../model/cells";
import { measure } from "../model/format";
import { pageOf } from "../model/route";
import { scopeOf } from "../model/scope";
import { useText } from "../text";
import { useUrl } from "../ui/url";
import { GroupRecords } from "../views/parts/GroupRecords";
import { GroupsGrid } from "../views/step/GroupsGrid";
import "../views/step/step.css";
import { ColumnsMenu, SelectionActions } from "../views/step/Summary";
import { useSelection } from "../views/step/selection";
import { TrajectoryList } from "../views/step/TrajectoryList";
import { GROUP } from "./archive";
import "./shared.css";

const NO_RECORDS: readonly GroupRecord[] = [];

/** All rollouts of one sample in one step: as a row of the grid, and one by one. */
export function GroupPage() {
  const t = useText();
  const { query } = useUrl();
  const page = pageOf(GROUP ?? "");
  if (page.name !== "step") throw new Error("this file has no group");
  const scope = scopeOf(page, query);
  const selection = useSelection();
  const [totals, setTotals] = useState<Groups["totals"] | null>(null);
  const series = useAnswer("/api/experiment", { query: { project: page.project, experiment: page.experiment } });
  const records = useAnswer("/api/group_records").data?.records ?? NO_RECORDS;
  const range = rangeFrom(series.data?.reward_range);
  const mean = numberOf(totals?.reward_mean);
  return (
    <div className="step-main shared-group">
      <div className="summary">
        <span className="dim cut">
          {totals && t.step.total(totals.trajectories)}
          {mean !== null && ` · ${t.step.mean(measure(mean))}`}
        </span>
        <span className="grow" />
        <SelectionActions selection={selection} />
        <ColumnsMenu />
      </div>
      <GroupsGrid
        scope={scope}
        range={range}
        selection={selection}
        records={records}
        dim={false}
        every={false}
        onFirst={(first) => setTotals(first.totals)}
      />
      <GroupRecords records={records} />
      <TrajectoryList scope={scope} range={range} selection={selection} every={false} onFirst={() => undefined} />
    </div>
  );
}
