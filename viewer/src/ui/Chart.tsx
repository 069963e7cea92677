import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./chart.css";

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
}

interface Props {
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

/** A chart on an axis of steps. Charts with the same `sync` share one crosshair; dragging zooms, a click picks a step. */
export function Chart(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const chart = useRef<uPlot | null>(null);
  const shape = JSON.stringify([props.lines, props.bands, props.sync, props.height]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: drawn anew only when its lines are others; data and zoom follow below
  useEffect(() => {
    const element = box.current!;
    const plot = new uPlot(optionsFor(latest, legend, element.clientWidth), dataOf(latest.current), element);
    chart.current = plot;
    const resized = new ResizeObserver(() => {
      if (element.clientWidth > 0) plot.setSize({ width: element.clientWidth, height: latest.current.height ?? 116 });
    });
    resized.observe(element);
    const themed = new MutationObserver(() => plot.redraw(false, true));
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
    showLegend(latest.current, legend.current, null);
    return () => {
      resized.disconnect();
      themed.disconnect();
      plot.destroy();
      chart.current = null;
    };
  }, [shape]);
  const { x, columns } = props;
  // biome-ignore lint/correctness/useExhaustiveDependencies: new data says when
  useEffect(() => {
    chart.current?.setData(dataOf(latest.current), false);
    applyZoom(chart.current, latest.current);
    showLegend(latest.current, legend.current, null);
  }, [x, columns]);
  const [from, to] = props.zoom ?? [null, null];
  // biome-ignore lint/correctness/useExhaustiveDependencies: the ends of the zoom say when
  useEffect(() => applyZoom(chart.current, latest.current), [from, to]);
  return (
    <figure className="chart">
      <figcaption>
        <span className="chart-title cut" title={props.title}>
          {props.title}
        </span>
        <span className="chart-legend mono" ref={legend} />
      </figcaption>
      <div ref={box} role="img" aria-label={props.title} />
    </figure>
  );
}

function dataOf(props: Props): uPlot.AlignedData {
  return [[...props.x], ...props.columns.map((column) => [...column])] as uPlot.AlignedData;
}

function applyZoom(plot: uPlot | null, props: Props): void {
  if (!plot || props.x.length === 0) return;
  const [min, max] = props.zoom ?? [props.x[0]!, props.x.at(-1)!];
  plot.setScale("x", min === max ? { min: min - 1, max: max + 1 } : { min, max });
}

function colourOf(colour: string): string {
  return colour.startsWith("--") ? getComputedStyle(document.documentElement).getPropertyValue(colour).trim() : colour;
}

/** Steps are whole numbers, so are the marks between them. */
const WHOLE_STEPS = [1, 2, 5]
  .flatMap((digit) => [0, 1, 2, 3, 4, 5, 6].map((power) => digit * 10 ** power))
  .sort((a, b) => a - b);

type Latest = { current: Props };

function optionsFor(latest: Latest, legend: { current: HTMLElement | null }, width: number): uPlot.Options {
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
          spanGaps: line.dashed ?? false, // validation happens every few steps
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

/** Written without React: it follows the pointer over a dozen charts at once. */
function showLegend(props: Props, element: HTMLElement | null, index: number | null): void {
  if (!element) return;
  element.textContent = "";
  const columns = props.shown ?? props.columns;
  if (index !== null) append(element, props.formatX(props.x[index]!), "--dim");
  let shown = 0;
  props.lines.forEach((_, reversed) => {
    const at = props.shown ? props.lines.length - 1 - reversed : reversed;
    const line = props.lines[at]!;
    // There is room for so many; of a stack, for those at its bottom: the largest.
    if (line.hidden || shown >= (props.shown ? 2 : 3)) return;
    const value = index === null ? columns[at]?.findLast((each) => each !== null) : columns[at]?.[index];
    if (value === null || value === undefined) return;
    const many = props.lines.length > 4;
    if (many && index !== null && value === 0) return;
    shown += 1;
    const number = many && index === null ? "" : props.format(value);
    append(element, line.named ? `${line.label} ${number}`.trim() : number, line.colour, line.dashed);
  });
}

function append(element: HTMLElement, text: string, colour: string, dashed = false): void {
  const span = document.createElement("span");
  span.textContent = text;
  span.style.color = colour === "--dim" ? "var(--dim)" : "var(--text)";
  if (colour !== "--dim") {
    const swatch = document.createElement("i");
    swatch.style.borderColor = colour.startsWith("--") ? `var(${colour})` : colour;
    if (dashed) swatch.style.borderTopStyle = "dotted";
    element.append(swatch);
  }
  element.append(span);
}
