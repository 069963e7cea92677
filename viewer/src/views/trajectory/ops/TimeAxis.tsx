import { type PointerEvent, useEffect, useRef, useState } from "react";
import { seconds } from "../../../model/format";
import { ticks, type Window, zoomed } from "../../../model/outline";
import { useText } from "../../../text";

interface Props {
  window: Window;
  whole: Window;
  count: number;
  onZoom: (window: Window) => void;
}

/** The heads of the columns, and a time axis: drag over it to zoom, Ctrl and wheel to zoom, wheel to move. */
export function TimeAxis({ window, whole, count, onZoom }: Props) {
  const t = useText();
  const axis = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const shareAt = (x: number) => {
    const { left, width } = axis.current!.getBoundingClientRect();
    return Math.min(1, Math.max(0, (x - left) / width));
  };
  const latest = useRef({ window, whole, onZoom });
  latest.current = { window, whole, onZoom };
  useEffect(() => {
    const grid = axis.current!.closest(".ops")!;
    // React listens passively to wheels, and then the page would zoom too.
    const wheel = (event: Event) => {
      const { deltaY, ctrlKey, metaKey, clientX } = event as WheelEvent;
      if (!ctrlKey && !metaKey) return;
      event.preventDefault();
      const now = latest.current;
      now.onZoom(zoomed(now.window, now.whole, shareAt(clientX), deltaY > 0 ? 1.25 : 0.8));
    };
    grid.addEventListener("wheel", wheel, { passive: false });
    return () => grid.removeEventListener("wheel", wheel);
  });
  const size = window.to - window.from;
  const isWhole = window.from <= whole.from && window.to >= whole.to;
  const finish = () => {
    if (drag && Math.abs(drag[0] - drag[1]) > 0.01) {
      const [from, to] = [Math.min(...drag), Math.max(...drag)];
      onZoom({ from: window.from + from * size, to: window.from + to * size });
    }
    setDrag(null);
  };
  const start = (event: PointerEvent<HTMLDivElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    setDrag([shareAt(event.clientX), shareAt(event.clientX)]);
  };
  return (
    <div className="op-line op-head" role="row">
      <span role="columnheader" className="head op-name">
        {t.ops.ops(count)}
        <span className="zoom-buttons">
          <button
            type="button"
            aria-label={t.ops.zoomIn}
            title={`${t.ops.zoomIn} · ${t.ops.zoomHint}`}
            onClick={() => onZoom(zoomed(window, whole, 0.5, 0.5))}
          >
            +
          </button>
          <button
            type="button"
            aria-label={t.ops.zoomOut}
            title={t.ops.zoomOut}
            disabled={isWhole}
            onClick={() => onZoom(zoomed(window, whole, 0.5, 2))}
          >
            −
          </button>
          <button
            type="button"
            aria-label={t.ops.fit}
            title={t.ops.fit}
            disabled={isWhole}
            onClick={() => onZoom(whole)}
          >
            ⤢
          </button>
        </span>
      </span>
      <span role="columnheader" className="head num">
        {t.ops.own}
      </span>
      <span role="columnheader" className="head num">
        {t.ops.total}
      </span>
      <div
        role="columnheader"
        className="axis"
        ref={axis}
        onPointerDown={start}
        onPointerMove={(event) => drag && setDrag([drag[0], shareAt(event.clientX)])}
        onPointerUp={finish}
      >
        {ticks(window, 6).map((tick) => {
          const share = (tick - window.from) / size;
          return (
            <span key={tick} className="tick-mark mono" style={{ left: `${share * 100}%` }}>
              {share < 0.93 ? seconds(tick) : ""}
            </span>
          );
        })}
        {drag && (
          <i
            className="axis-drag"
            style={{ left: `${Math.min(...drag) * 100}%`, width: `${Math.abs(drag[0] - drag[1]) * 100}%` }}
          />
        )}
      </div>
    </div>
  );
}
