import { type PointerEvent, useEffect, useRef } from "react";
import { numbersOf, type WireNumber } from "../../../api/number";
import type { TokenRange } from "../../../api/types.gen";
import { surprise } from "../../../model/scale";

interface Props {
  range: TokenRange;
  visible: readonly [number, number];
  label: string;
  onJump: (index: number) => void;
}

const WIDTH = 14;

/** The whole sequence in one strip beside the scroll bar: where it is unlikely, where it is prompt, where one is. */
export function Minimap({ range, visible, label, onJump }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current!;
    const draw = () => paint(element, range);
    const resized = new ResizeObserver(draw);
    resized.observe(element);
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
    return () => {
      resized.disconnect();
      themed.disconnect();
    };
  }, [range]);
  const jump = (event: PointerEvent<HTMLDivElement>) => {
    const { top, height } = event.currentTarget.getBoundingClientRect();
    const share = Math.min(0.9999, Math.max(0, (event.clientY - top) / height));
    onJump(Math.floor(share * range.total));
  };
  const [from, to] = visible;
  return (
    <div
      className="minimap"
      role="slider"
      tabIndex={0}
      aria-label={label}
      aria-orientation="vertical"
      aria-valuemin={0}
      aria-valuemax={range.total}
      aria-valuenow={from}
      onPointerDown={jump}
      onPointerMove={(event) => event.buttons === 1 && jump(event)}
      onKeyDown={(event) => {
        const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
        if (!by) return;
        event.preventDefault();
        event.stopPropagation();
        onJump(Math.min(range.total - 1, Math.max(0, from + Math.round((by * range.total) / 50))));
      }}
    >
      <canvas ref={canvas} aria-hidden />
      <i style={{ top: `${(from / range.total) * 100}%`, height: `${((to - from) / range.total) * 100}%` }} />
    </div>
  );
}

function paint(canvas: HTMLCanvasElement, range: TokenRange): void {
  const height = canvas.clientHeight;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = WIDTH * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  context.fillStyle = style.getPropertyValue("--code");
  context.fillRect(0, 0, WIDTH, height);
  const heat = style.getPropertyValue("--heat").trim().split(/\s+/).join(",");
  const buckets = numbersOf(range.minimap as (WireNumber | null)[]);
  const tall = height / Math.max(1, buckets.length);
  buckets.forEach((logprob, index) => {
    if (logprob === null) return;
    context.fillStyle = `rgba(${heat}, ${Math.max(0.08, surprise(logprob) * 0.9)})`;
    context.fillRect(0, index * tall, WIDTH, Math.max(1, tall));
  });
  context.fillStyle = style.getPropertyValue("--accent");
  for (const each of range.breaks) context.fillRect(0, (each.at / range.total) * height, WIDTH, 2);
}
