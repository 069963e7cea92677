import type { OutlineOp } from "../../../api/types.gen";
import { MISSING, seconds } from "../../../model/format";
import { barOf, isFailed, type Window } from "../../../model/outline";
import { useText } from "../../../text";
import { FlagChips } from "../../parts/Flags";
import { OpName } from "../../parts/OpName";

interface Props {
  op: OutlineOp;
  top: number;
  window: Window;
  now: number;
  here: boolean;
  fold: "folded" | "open" | null;
  onFold: () => void;
  onPick: () => void;
}

const DEEPEST = 12;

export function OpLine({ op, top, window, now, here, fold, onFold, onPick }: Props) {
  const t = useText();
  const bar = barOf(op, window, now);
  const failed = isFailed(op.status);
  return (
    <div
      className={`op-line${here ? " here" : ""}`}
      role="row"
      aria-level={op.depth + 1}
      aria-expanded={fold === null ? undefined : fold === "open"}
      style={{ transform: `translateY(${top}px)` }}
      onClick={onPick}
    >
      <span role="gridcell" className="op-name" style={{ paddingLeft: 8 + Math.min(op.depth, DEEPEST) * 14 }}>
        {fold ? (
          <button
            type="button"
            className="j-toggle op-fold"
            aria-label={fold === "open" ? t.ops.collapse : t.ops.expand}
            onClick={(event) => {
              event.stopPropagation();
              onFold();
            }}
          >
            {fold === "open" ? "▾" : "▸"}
          </button>
        ) : (
          <span className="op-fold" />
        )}
        <span className="kind" style={{ background: `var(--${op.kind})` }} />
        <button type="button" className={`op-button${failed ? " err" : ""}`} onClick={onPick}>
          <OpName name={op.name} />
        </button>
        <FlagChips flags={op.flags} most={1} />
      </span>
      <span role="gridcell" className="num dim">
        {op.own_s === null || op.own_s === op.duration_s ? "" : seconds(op.own_s)}
      </span>
      <span role="gridcell" className={`num${failed ? " err" : ""}`}>
        {op.duration_s === null ? (t.status[op.status] ?? MISSING) : seconds(op.duration_s)}
      </span>
      <span role="gridcell" className="op-track">
        {bar && (
          <i
            className={`${failed ? "failed" : ""}${op.status === "running" ? " running" : ""}`}
            style={{
              left: `${bar.left * 100}%`,
              width: `max(2px, ${bar.width * 100}%)`,
              background: failed ? undefined : `var(--${op.kind})`,
            }}
          />
        )}
      </span>
    </div>
  );
}
