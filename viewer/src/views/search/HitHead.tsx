import { numberOf } from "../../api/number";
import type { TrajectoryRow } from "../../api/types.gen";
import { measure } from "../../model/format";
import { trajectoryPath } from "../../model/route";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { FlagChips } from "../parts/Flags";

/** Which trajectory, in one line. */
export function HitHead({ row, note }: { row: TrajectoryRow; note: string }) {
  const t = useText();
  const place = [
    row.step === null ? null : t.frame.step(row.step),
    row.sample_index === null ? null : t.frame.sample(row.sample_index),
    row.rollout_n === null ? row.trajectory_id.slice(0, 8) : t.frame.rollout(row.rollout_n),
  ];
  return (
    <div className="hit-head">
      <Link href={trajectoryPath(row.trajectory_id)}>
        <span className="dim">
          <bdi>{row.project}</bdi> / <bdi>{row.experiment}</bdi> /{" "}
        </span>
        <b>{place.filter(Boolean).join(" / ")}</b>
      </Link>
      <span className="mono dim">{t.compare.reward(measure(numberOf(row.reward)))}</span>
      {row.status !== "ok" && <span className={`status-word ${row.status}`}>{t.status[row.status] ?? row.status}</span>}
      <FlagChips flags={row.flags} most={2} />
      <span className="grow" />
      <span className="dim">{note}</span>
    </div>
  );
}
