import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { Panel, PanelGroup, PanelResizeHandle } from "react-resizable-panels";
import { useAnswer } from "../../../api/hooks";
import type { TrajectoryHead } from "../../../api/types.gen";
import { parents, unfolded, type Window, wholeWindow } from "../../../model/outline";
import { useText } from "../../../text";
import { setQuery, useUrl } from "../../../ui/url";
import { showOp } from "../keys";
import { OpDetail } from "./OpDetail";
import { OpLine } from "./OpLine";
import { TimeAxis } from "./TimeAxis";
import "./ops.css";

const ROW = 24;

/** The tree of ops on one time axis, and what the chosen one was given and gave. */
export default function OpsTab({ head }: { head: TrajectoryHead }) {
  const t = useText();
  const { query, anchor } = useUrl();
  const at = anchor.get("op");
  const status = useAnswer("/api/status");
  const now = ((status.data?.now_ns ?? head.row.start_ns) - head.row.start_ns) / 1e9;
  const running = head.row.status === "running";
  const whole = useMemo(
    () => wholeWindow(head.outline, head.row.duration_s ?? (running ? now : null)),
    [head, running, now],
  );
  const window = parseWindow(query.get("t")) ?? whole;
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const rows = useMemo(() => unfolded(head.outline, folded), [head.outline, folded]);
  const branches = useMemo(() => parents(head.outline), [head.outline]);
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const index = rows.findIndex((op) => op.op_id === at);
  useEffect(() => {
    if (index >= 0) virtual.scrollToIndex(index, { align: "auto" });
  }, [index, virtual]);
  const setWindow = (next: Window) => {
    const isWhole = next.from <= whole.from && next.to >= whole.to;
    setQuery({ t: isWhole ? null : `${next.from.toPrecision(8)}-${next.to.toPrecision(8)}` }, { replace: true });
  };
  const fold = (id: string) => {
    const next = new Set(folded);
    if (!next.delete(id)) next.add(id);
    setFolded(next);
  };
  return (
    <PanelGroup direction="vertical" autoSaveId="rolltrace.ops">
      <Panel id="waterfall" order={1} minSize={20} defaultSize={55} className="pane">
        <div className="ops" role="treegrid" aria-label={t.trajectory.tabs.ops}>
          <TimeAxis window={window} whole={whole} count={head.outline.length} onZoom={setWindow} />
          <div className="pane-scroll" ref={box}>
            <div style={{ height: virtual.getTotalSize(), position: "relative" }} role="presentation">
              {virtual.getVirtualItems().map((item) => {
                const op = rows[item.index]!;
                return (
                  <OpLine
                    key={op.op_id}
                    op={op}
                    top={item.start}
                    window={window}
                    now={now}
                    here={op.op_id === at}
                    fold={branches.has(op.op_id) ? (folded.has(op.op_id) ? "folded" : "open") : null}
                    onFold={() => fold(op.op_id)}
                    onPick={() => showOp(op.op_id)}
                  />
                );
              })}
            </div>
            {!at && <p className="dim pane-note">{t.ops.choose}</p>}
          </div>
        </div>
      </Panel>
      {at && (
        <>
          <PanelResizeHandle className="handle across" aria-label={t.trajectory.resize} />
          <Panel id="payload" order={2} minSize={15} defaultSize={45} className="pane">
            <OpDetail key={at} trajectoryId={head.row.trajectory_id} opId={at} />
          </Panel>
        </>
      )}
    </PanelGroup>
  );
}

function parseWindow(text: string | null): Window | null {
  const match = /^([\d.e+]+)-([\d.e+]+)$/.exec(text ?? "");
  if (!match) return null;
  const [from, to] = [Number(match[1]), Number(match[2])];
  return to > from ? { from, to } : null;
}
