import type { LiveRow } from "../../api/types.gen";
import { count, MISSING, seconds } from "../../model/format";
import { waitOf } from "../../model/live";
import { experimentPath, stepPath, trajectoryPath } from "../../model/route";
import { useText } from "../../text";
import { Link } from "../../ui/Link";

export function LiveLine({ row, ended, here }: { row: LiveRow; ended: boolean; here: boolean }) {
  const t = useText();
  const pace = ended ? "unknown" : row.pace;
  const wait = waitOf(row);
  const share = wait.seconds !== null && wait.usual ? Math.min(1, wait.seconds / wait.usual) : 0;
  const place = [
    row.step === null ? null : t.frame.step(row.step),
    row.sample_index === null ? null : t.frame.sample(row.sample_index),
    row.rollout_n === null ? null : `n${row.rollout_n}`,
  ];
  return (
    <tr className={`${here ? "here" : ""}${ended ? " ended-row" : ""}`}>
      <td className="num">{seconds(row.age_s)}</td>
      <td className="name-cell">
        <Link className="dim" href={experimentPath(row.project, row.experiment)}>
          <bdi>{row.experiment}</bdi>
        </Link>{" "}
        <Link href={trajectoryPath(row.trajectory_id)}>{place.filter(Boolean).join(" · ") || row.name}</Link>
        {row.validate && (
          <Link className="chip quiet" href={stepPath(row.project, row.experiment, row.step)}>
            {t.frame.validation}
          </Link>
        )}
      </td>
      <td>
        {ended ? (
          <span className="dim">{t.live.finished}</span>
        ) : row.current_op === null ? (
          <span className="dim">{t.live.betweenOps}</span>
        ) : (
          <span className="current-op">
            <span className="kind" style={{ background: `var(--${row.current_kind ?? "other"})` }} />
            <bdi>{row.current_op}</bdi>
            {row.idle_s !== null && <span className="dim"> {t.live.betweenOps}</span>}
          </span>
        )}
      </td>
      <td className="num pace-cell">
        {!ended && wait.seconds !== null && (
          <span
            className={`pace ${pace}`}
            title={pace === "hung" ? t.live.hungTip : pace === "slow" ? t.live.slowTip : undefined}
          >
            {pace !== "fine" && pace !== "unknown" && <b>{t.live.states[pace]}</b>}
            <span className="pace-bar">
              <i style={{ width: `${share * 100}%` }} />
            </span>
            {seconds(wait.seconds)}
          </span>
        )}
      </td>
      <td className="num dim">{wait.usual === null ? MISSING : seconds(wait.usual)}</td>
      <td className="num">{count(row.turns)}</td>
      <td className="num">{count(row.tokens)}</td>
      <td className="mono dim cut worker-cell" title={row.worker}>
        <bdi>{row.worker}</bdi>
      </td>
    </tr>
  );
}
