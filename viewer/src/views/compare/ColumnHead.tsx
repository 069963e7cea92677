import { numberOf } from "../../api/number";
import type { CompareColumn, TrajectoryRow } from "../../api/types.gen";
import { baseOfStore } from "../../base";
import { measure } from "../../model/format";
import { trajectoryPath } from "../../model/route";
import type { Range } from "../../model/scale";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { RewardSquare } from "../parts/Reward";

interface Props {
  column: CompareColumn;
  range: Range | null;
  isBase: boolean;
  many: boolean;
  turnsDiffer: boolean;
  others: readonly TrajectoryRow[];
  onBase: () => void;
  onRemove?: () => void;
}

export function ColumnHead({ column, range, isBase, many, turnsDiffer, others, onBase, onRemove }: Props) {
  const t = useText();
  const { row } = column;
  return (
    <div className={`compare-head${many && isBase ? " base" : ""}`}>
      <RewardSquare cell={{ reward: row.reward, status: "ok" }} range={range} small />
      <Link
        href={baseOfStore(column.store) + trajectoryPath(row.trajectory_id)}
        className="compare-name"
        title={row.trajectory_id}
      >
        <bdi>{column.store === null ? nameOf(row, others, t) : `${column.store}: ${nameOf(row, others, t)}`}</bdi>
      </Link>
      <span className={`cut dim${many ? "" : " mono"}`}>
        {many ? measure(numberOf(row.reward)) : t.compare.reward(measure(numberOf(row.reward)))} ·{" "}
        <span className={turnsDiffer ? "strong" : ""}>{t.compare.turns(column.turns)}</span>
        {row.response_tokens === null
          ? ""
          : ` · ${many ? t.trajectory.tokensUnit(row.response_tokens) : t.compare.tokens(row.response_tokens)}`}
        {row.status === "ok" ? "" : ` · ${t.status[row.status] ?? row.status}`}
      </span>
      <span className="grow" />
      {many && (
        <button
          type="button"
          className="button bare icon small"
          aria-pressed={isBase}
          aria-label={t.compare.baseline}
          title={t.compare.baseline}
          onClick={onBase}
        >
          {isBase ? "◉" : "○"}
        </button>
      )}
      {onRemove && (
        <button
          type="button"
          className="button bare icon small"
          aria-label={t.compare.remove}
          title={t.compare.remove}
          onClick={onRemove}
        >
          ×
        </button>
      )}
    </div>
  );
}

/** Only the coordinates that tell the columns apart. */
export function nameOf(row: TrajectoryRow, others: readonly TrajectoryRow[], t: ReturnType<typeof useText>): string {
  const differs = (pick: (each: TrajectoryRow) => unknown) => new Set(others.map(pick)).size > 1;
  const parts = [
    differs((each) => each.experiment) ? row.experiment : "",
    differs((each) => each.step) ? t.frame.step(row.step ?? "–") : "",
    differs((each) => each.sample_index) ? t.frame.sample(row.sample_index ?? "–") : "",
    row.rollout_n === null ? row.trajectory_id.slice(0, 8) : `n${row.rollout_n}`,
  ];
  return parts.filter(Boolean).join(" · ");
}
