import { memo } from "react";
import { numberOf } from "../../api/number";
import type { GroupRecord, GroupRow } from "../../api/types.gen";
import { MISSING, measure, seconds, short } from "../../model/format";
import { comparePath, pageOf, stepPath, trajectoryPath } from "../../model/route";
import type { Range } from "../../model/scale";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { useUrl } from "../../ui/url";
import { FlagChips } from "../parts/Flags";
import { GroupRecordsChip } from "../parts/GroupRecords";
import { RewardSquare } from "../parts/Reward";
import type { Selection } from "./selection";

interface Props {
  group: GroupRow;
  records: readonly GroupRecord[] | undefined;
  top: number;
  index: number;
  here: boolean;
  dim: boolean;
  range: Range | null;
  selection: Selection;
  tabbable: boolean | undefined;
  showStep: boolean;
}

/** All rollouts of one sample. */
export const GroupLine = memo(function GroupLine(props: Props) {
  const { group, selection } = props;
  const t = useText();
  const page = pageOf(useUrl().path);
  const place = page.name === "step" ? page : null;
  const classes = ["group-row", props.here ? "here" : "", props.dim && group.zero_variance ? "dimmed" : ""];
  const samplePath = place ? stepPath(place.project, place.experiment, group.step, group.sample_index) : "";
  const tokens = spread(group.response_tokens_mean, group.response_tokens_min, group.response_tokens_max);
  return (
    <div
      className={classes.filter(Boolean).join(" ")}
      role="row"
      aria-rowindex={props.index + 2}
      style={{ transform: `translateY(${props.top}px)` }}
    >
      <span role="cell" className="num cut">
        {group.validate && <span className="chip quiet val">{t.frame.validationShort}</span>}
        {place ? (
          <Link href={samplePath} title={group.sample_index ?? ""}>
            <bdi>{group.sample_index ?? MISSING}</bdi>
          </Link>
        ) : (
          <bdi>{group.sample_index ?? MISSING}</bdi>
        )}
      </span>
      <span role="cell" className="cells">
        {group.cells.map((cell, index) => {
          const id = cell.trajectory_id;
          const selected = selection.ids.includes(id);
          const atHere = selection.at === id;
          const word = t.status[cell.status] ?? cell.status;
          return (
            <Link
              key={id}
              href={trajectoryPath(id)}
              data-tip={id}
              className={`cell${selected ? " selected" : ""}${atHere ? " at" : ""}`}
              tabIndex={atHere || (props.tabbable && index === 0) ? 0 : -1}
              aria-label={`${t.step.cell(cell.rollout_n, measure(numberOf(cell.reward)), word)}${selected ? ` ✓` : ""}`}
            >
              <RewardSquare cell={cell} range={props.range} />
            </Link>
          );
        })}
      </span>
      <span role="cell" className="num">
        {measure(numberOf(group.mean))}
      </span>
      <span role="cell" className="num">
        {measure(numberOf(group.std))}
      </span>
      <span role="cell" className="num">
        {group.scored && group.passed !== null ? `${group.passed}/${group.scored}` : MISSING}
      </span>
      <span role="cell" className="num">
        {tokens}
      </span>
      <span role="cell" className="num">
        {measure(group.turns_mean, 1)}
      </span>
      <span role="cell" className="num">
        {seconds(group.duration_s_max)}
      </span>
      <span role="cell" className="flags-cell">
        <GroupRecordsChip records={props.records} href={samplePath} />
        <FlagChips flags={group.flags} />
        {group.best && group.worst && group.best !== group.worst && (
          <Link
            className="row-action"
            href={comparePath([group.best, group.worst])}
            title={t.step.bestWorst}
            aria-label={t.step.bestWorst}
            tabIndex={props.here ? 0 : -1}
          >
            ⇄
          </Link>
        )}
      </span>
    </div>
  );
});

function spread(mean: number | null, min: number | null, max: number | null) {
  if (mean === null) return MISSING;
  return (
    <>
      {short(Math.round(mean))}{" "}
      <span className="faint">({min === max ? short(min) : `${short(min)}–${short(max)}`})</span>
    </>
  );
}
