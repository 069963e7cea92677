import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";
import type { TrajectoryHead } from "../../api/types.gen";
import { seconds } from "../../model/format";
import { isFailed } from "../../model/outline";
import { useText } from "../../text";
import { useUrl } from "../../ui/url";
import { OpName } from "../parts/OpName";
import { showOp } from "./keys";

const ROW = 24;
const DEEPEST = 8;

/** The ops in their order; a click shows one in the tab that is open. */
export function Outline({ head, onShut }: { head: TrajectoryHead; onShut: () => void }) {
  const t = useText();
  const at = useUrl().anchor.get("op");
  const flagged = useMemo(
    () => new Set(head.findings.flatMap((finding) => (finding.op_id ? [finding.op_id] : []))),
    [head],
  );
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: head.outline.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const index = head.outline.findIndex((op) => op.op_id === at);
  useEffect(() => {
    if (index >= 0) virtual.scrollToIndex(index, { align: "auto" });
  }, [index, virtual]);
  return (
    <aside className="outline" aria-label={t.trajectory.outline}>
      <div className="pane-head">
        <span className="label">{t.trajectory.outline}</span>
        <span className="dim mono">{head.outline.length}</span>
        <span className="grow" />
        <button
          type="button"
          className="button bare icon small"
          aria-label={t.trajectory.hide}
          title={t.trajectory.hide}
          onClick={onShut}
        >
          «
        </button>
      </div>
      {head.outline.length === 0 && <p className="dim pane-note">{t.empty.noOps}</p>}
      <div className="pane-scroll" ref={box}>
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {virtual.getVirtualItems().map((item) => {
            const op = head.outline[item.index]!;
            return (
              <button
                type="button"
                key={op.op_id}
                className="o"
                aria-current={op.op_id === at ? "true" : undefined}
                style={{ transform: `translateY(${item.start}px)`, paddingLeft: 16 + Math.min(op.depth, DEEPEST) * 10 }}
                onClick={() => showOp(op.op_id)}
              >
                <span className="kind" style={{ background: `var(--${op.kind})` }} />
                <OpName name={op.name} className={isFailed(op.status) ? "err" : ""} />
                {(flagged.has(op.op_id) || op.flags.length > 0) && (
                  <span className="flag-mark" title={op.flags.join(", ")}>
                    <span className="sr">{op.flags.join(", ")}</span>
                  </span>
                )}
                <span className={`w mono${isFailed(op.status) ? " err" : " dim"}`}>
                  {op.status === "ok" ? seconds(op.duration_s) : (t.status[op.status] ?? op.status)}
                </span>
              </button>
            );
          })}
        </div>
      </div>
    </aside>
  );
}
