/** How a chart looks and what the pointer does on it, for uPlot. */
import type uPlot from "uplot";
import { showLegend } from "./chartLegend";

export interface ChartLine {
  readonly label: string;
  /** A custom property of the palette, such as `--accent`, or a colour. */
  readonly colour: string;
  readonly dashed?: boolean;
  /** Drawn as an edge of a band, not as a line. */
  readonly hidden?: boolean;
  readonly filled?: boolean;
  readonly width?: number;
  /** Its name stands in the legend; without, its stroke says which it is. */
  readonly named?: boolean;
  /** The axis does not reach for its values: it may leave the chart at the top. */
  readonly loose?: boolean;
}

export interface ChartProps {
  title: string;
  x: readonly number[];
  columns: readonly (readonly (number | null)[])[];
  lines: readonly ChartLine[];
  /** Pairs of lines with the space between them filled. */
  bands?: readonly (readonly [number, number])[];
  /** What the legend shows, if not the columns themselves (stacks show their own part). */
  shown?: readonly (readonly (number | null)[])[];
  format: (value: number) => string;
  /** The same where there is little room: on the axis. */
  formatTick: (value: number) => string;
  formatX: (x: number) => string;
  sync: string;
  zoom: readonly [number, number] | null;
  height?: number;
  fromZero?: boolean;
  onZoom: (range: [number, number] | null) => void;
  onPick: (x: number) => void;
}

function colourOf(colour: string): string {
  return colour.startsWith("--") ? getComputedStyle(document.documentElement).getPropertyValue(colour).trim() : colour;
}

/** Steps are whole numbers, so are the marks between them. */
const WHOLE_STEPS = [1, 2, 5]
  .flatMap((digit) => [0, 1, 2, 3, 4, 5, 6].map((power) => digit * 10 ** power))
  .sort((a, b) => a - b);

type Latest = { current: ChartProps };

export function optionsFor(latest: Latest, legend: { current: HTMLElement | null }, width: number): uPlot.Options {
  const { lines, bands, sync, height = 116 } = latest.current;
  const axis = {
    stroke: () => colourOf("--dim"),
    grid: { stroke: () => colourOf("--line-soft"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return {
    width,
    height,
    padding: [6, 8, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: sync, setSeries: false },
      drag: { x: true, y: false, setScale: false },
      points: { size: 5 },
      y: false,
    },
    scales: { x: { time: false }, y: { range: (_, low, high) => yRange(low, high, latest.current.fromZero ?? false) } },
    axes: [
      {
        ...axis,
        size: 24,
        gap: 5,
        space: 48,
        incrs: WHOLE_STEPS,
        values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? latest.current.formatX(tick) : "")),
      },
      {
        ...axis,
        size: 46,
        gap: 4,
        space: 28,
        values: (_, ticks) => ticks.map((tick) => latest.current.formatTick(tick)),
      },
    ],
    series: [
      {},
      ...lines.map(
        (line): uPlot.Series => ({
          label: line.label,
          stroke: line.hidden ? undefined : () => colourOf(line.colour),
          width: line.hidden ? 0 : (line.width ?? 1.5),
          dash: line.dashed ? [5, 4] : undefined,
          fill: line.filled ? () => colourOf(line.colour) : undefined,
          points: {
            show: line.hidden || line.filled ? false : (plot, index) => isSparse(plot, index),
            size: 4,
            fill: () => colourOf("--bg"),
          },
          auto: !line.loose,
          spanGaps: true, // validation happens every few steps, and sometimes at steps of its own
        }),
      ),
    ],
    bands: bands?.map(([upper, lower]) => ({
      series: [upper + 1, lower + 1],
      fill: () => `color-mix(in srgb, ${colourOf(lines[upper]!.colour)} 16%, transparent)`,
    })),
    hooks: {
      setCursor: [(plot) => showLegend(latest.current, legend.current, plot.cursor.idx ?? null)],
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return;
          const ends = [plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x")];
          latest.current.onZoom([Math.round(Math.min(...ends)), Math.round(Math.max(...ends))]);
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      ready: [(plot) => listenForClicks(plot, latest)],
    },
  };
}

/** A line of few points would be hard to see, and one of a single point invisible. */
function isSparse(plot: uPlot, index: number): boolean {
  const values = plot.data[index]!;
  let known = 0;
  for (const value of values) if (value !== null && value !== undefined) known += 1;
  return known <= 24;
}

function yRange(low: number | null, high: number | null, fromZero: boolean): [number, number] {
  if (low === null || high === null) return [0, 1];
  const bottom = fromZero ? Math.min(0, low) : low;
  if (bottom === high) return [bottom === 0 ? 0 : bottom - Math.abs(bottom) * 0.1, high + (Math.abs(high) * 0.1 || 1)];
  const room = (high - bottom) * 0.08;
  return [fromZero && low >= 0 ? 0 : bottom - room, high + room];
}

function listenForClicks(plot: uPlot, latest: Latest): void {
  let downAt = 0;
  plot.over.addEventListener("pointerdown", (event) => {
    downAt = event.clientX;
  });
  plot.over.addEventListener("click", (event) => {
    const index = plot.cursor.idx;
    if (Math.abs(event.clientX - downAt) < 4 && index !== null && index !== undefined)
      latest.current.onPick(plot.data[0][index]!);
  });
  plot.over.addEventListener("dblclick", () => latest.current.onZoom(null));
}
