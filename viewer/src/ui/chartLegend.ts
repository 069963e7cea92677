/** What stands beside the title of a chart: the values under the pointer, or the newest. */
import type { ChartProps } from "./chartOptions";

/** With more named lines than this there is room for names or for numbers, and not for the title too. */
const FEW = 2;
const MOST = 3;

/** Written without React: it follows the pointer over a dozen charts at once. */
export function showLegend(props: ChartProps, element: HTMLElement | null, index: number | null): void {
  if (!element) return;
  element.textContent = "";
  const columns = props.shown ?? props.columns;
  const isCrowded = props.lines.filter((line) => line.named && !line.hidden).length > FEW;
  element.parentElement?.classList.toggle("crowded", isCrowded && index !== null);
  if (index !== null) append(element, props.formatX(props.x[index]!), "--dim");
  let shown = 0;
  const hidden: string[] = [];
  props.lines.forEach((_, reversed) => {
    // Of a stack, those at its bottom: the largest.
    const at = props.shown ? props.lines.length - 1 - reversed : reversed;
    const line = props.lines[at]!;
    if (line.hidden) return;
    const value = index === null ? columns[at]?.findLast((each) => each !== null) : columns[at]?.[index];
    if (value === null || value === undefined || (props.shown && index !== null && value === 0)) return;
    const number = isCrowded && index === null ? "" : props.format(value);
    const text = line.named ? `${line.label} ${number}`.trim() : number;
    if (shown < (props.shown ? FEW : MOST)) append(element, text, line.colour, line.dashed);
    else hidden.push(text);
    shown += 1;
  });
  if (hidden.length > 0) append(element, `+${hidden.length}`, "--dim").title = hidden.join("\n");
}

function append(element: HTMLElement, text: string, colour: string, dashed = false): HTMLElement {
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
  return span;
}
