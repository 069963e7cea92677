import type { Cell } from "../../api/types.gen";
import { seconds } from "../../model/format";
import { useText } from "../../text";

export function CellTip({ cell, reward }: { cell: Cell; reward: string }) {
  const t = useText();
  const facts = [
    cell.response_tokens === null ? null : t.trajectory.tokensUnit(cell.response_tokens),
    t.compare.turns(cell.turns),
    cell.duration_s === null ? null : seconds(cell.duration_s),
  ];
  return (
    <div className="mono">
      <div>
        {t.frame.rollout(cell.rollout_n)} · {t.compare.reward(reward)}
        {cell.status === "ok" ? "" : ` · ${t.status[cell.status] ?? cell.status}`}
      </div>
      <div>{facts.filter(Boolean).join(" · ")}</div>
      {cell.flags.length > 0 && <div>{cell.flags.join(", ")}</div>}
      {cell.labels.length > 0 && <div>{t.labels.marked(cell.labels.join(", "))}</div>}
      <div className="tip-dim">{cell.trajectory_id.slice(0, 8)}</div>
    </div>
  );
}
