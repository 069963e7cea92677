import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./chart.css";
import { showLegend } from "./chartLegend";
import { type ChartProps, optionsFor } from "./chartOptions";

export type { ChartLine } from "./chartOptions";

/** A chart on an axis of steps. Charts with the same `sync` share one crosshair; dragging zooms, a click picks a step. */
export function Chart(props: ChartProps) {
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

function dataOf(props: ChartProps): uPlot.AlignedData {
  return [[...props.x], ...props.columns.map((column) => [...column])] as uPlot.AlignedData;
}

function applyZoom(plot: uPlot | null, props: ChartProps): void {
  if (!plot || props.x.length === 0) return;
  const [min, max] = props.zoom ?? [props.x[0]!, props.x.at(-1)!];
  plot.setScale("x", min === max ? { min: min - 1, max: max + 1 } : { min, max });
}
