import { type PointerEvent, useRef, useState } from "react";
import { type Bars, covered, heights, rangeOfBars } from "../model/histogram";

interface Props {
  bars: Bars;
  label: string;
  range: [number, number] | null;
  format: (value: number) => string;
  /** Of a value in the middle of a bar. */
  colour?: (value: number) => string;
  /** The values are whole numbers, of which an upper edge is none. */
  whole?: boolean;
  onChange: (range: [number, number] | null) => void;
}

const HEIGHT = 36;
/** Of the whole width: where there are few bars, none is a block. */
const WIDEST = 0.12;

/** Bars to drag a range over. With the keyboard: arrows move its upper end, with Shift its lower one; Escape clears it. */
export function HistogramBrush({ bars, label, range, format, colour, whole = false, onChange }: Props) {
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const box = useRef<SVGSVGElement>(null);
  const chosen = drag ? ([Math.min(...drag), Math.max(...drag)] as const) : covered(bars, range);
  const count = bars.counts.length;
  const tall = heights(bars.counts);
  const [low, high] = chosen ? rangeOfBars(bars, chosen[0], chosen[1]) : [bars.edges[0]!, bars.edges.at(-1)!];
  const last = whole ? Math.max(low, high - 1) : high;
  const thick = Math.min(9, count * WIDEST * 10);
  const barAt = (event: PointerEvent) => {
    const { left, width } = box.current!.getBoundingClientRect();
    return Math.min(count - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * count)));
  };
  const move = (by: number, lower: boolean) => {
    const [first, last] = chosen ?? [0, count - 1];
    const next = lower ? [clamp(first + by, 0, last), last] : [first, clamp(last + by, first, count - 1)];
    onChange(rangeOfBars(bars, next[0]!, next[1]!));
  };
  return (
    <div className="histogram">
      <svg
        ref={box}
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={bars.edges[0]}
        aria-valuemax={bars.edges.at(-1)}
        aria-valuenow={high}
        aria-valuetext={`${format(low)} – ${format(last)}`}
        viewBox={`0 0 ${count * 10} ${HEIGHT}`}
        preserveAspectRatio="none"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrag([barAt(event), barAt(event)]);
        }}
        onPointerMove={(event) => drag && setDrag([drag[0], barAt(event)])}
        onPointerUp={() => {
          if (drag) onChange(same(drag, covered(bars, range)) ? null : rangeOfBars(bars, drag[0], drag[1]));
          setDrag(null);
        }}
        onKeyDown={(event) => {
          const by = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: 1, ArrowDown: -1 }[event.key];
          if (by) move(by, event.shiftKey);
          else if (event.key === "Escape") onChange(null);
          else return;
          event.preventDefault();
        }}
      >
        {tall.map((height, bar) => (
          <rect
            key={bar}
            x={bar * 10 + (10 - thick) / 2}
            width={thick}
            y={HEIGHT - height * HEIGHT}
            height={height * HEIGHT}
            className={colour ? "coloured" : undefined}
            fill={colour ? colour((bars.edges[bar]! + bars.edges[bar + 1]!) / 2) : "var(--mark)"}
            opacity={chosen && (bar < chosen[0] || bar > chosen[1]) ? 0.25 : 1}
          />
        ))}
      </svg>
      <div className="histogram-ends mono" aria-hidden>
        <span>{format(low)}</span>
        <span>{format(last)}</span>
      </div>
    </div>
  );
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

/** A click on what is chosen already takes the choice back. */
function same(drag: readonly [number, number], chosen: readonly [number, number] | null): boolean {
  return chosen !== null && drag[0] === drag[1] && chosen[0] <= drag[0] && drag[0] <= chosen[1];
}
