/** What stands under the input of a filter: its words in colours, and what is wrong with it at the very character. */
import { type RefObject, useLayoutEffect, useState } from "react";
import { pieces, unitsBefore } from "../../model/where";

export interface FilterProblem {
  readonly detail: string;
  readonly position: number;
  readonly length: number;
  readonly hint: string | null;
}

export function Coloured({ text, problem }: { text: string; problem: FilterProblem | null }) {
  const [from, to] = problem
    ? [unitsBefore(text, problem.position), unitsBefore(text, problem.position + Math.max(1, problem.length))]
    : [-1, -1];
  let at = 0;
  return (
    <>
      {pieces(text).map((piece, index) => {
        const start = at;
        at += piece.text.length;
        const wrong = problem !== null && start < to && at > from;
        return (
          <span key={index} className={`w-${piece.kind}${wrong ? " w-wrong" : ""}`} data-start={start}>
            {piece.text}
          </span>
        );
      })}
    </>
  );
}

/** A hint that lists every field would push the page away; completion has them all. */
const LONGEST_HINT = 120;

interface TroubleProps {
  id: string;
  problem: FilterProblem;
  mirror: RefObject<HTMLDivElement | null>;
  hidden: boolean;
}

export function Trouble({ id, problem, mirror, hidden }: TroubleProps) {
  const [left, setLeft] = useState(0);
  useLayoutEffect(() => {
    const box = mirror.current;
    if (box) setLeft(placeOf(box, problem.position) - box.scrollLeft);
  }, [mirror, problem]);
  return (
    <div className="where-problem" id={id} role="alert" hidden={hidden}>
      <span className="where-caret" style={{ left }} aria-hidden>
        ^
      </span>
      <div className="traced" style={{ marginLeft: `min(${Math.max(0, left)}px, 60%)` }}>
        {problem.detail}
        {problem.hint && problem.hint.length < LONGEST_HINT ? ` ${problem.hint}` : ""}
      </div>
    </div>
  );
}

/** Where a character stands on the screen, whatever its width. */
export function placeOf(mirror: HTMLElement, position: number): number {
  const text = mirror.textContent ?? "";
  const units = unitsBefore(text, position);
  const range = document.createRange();
  for (const span of mirror.children) {
    const start = Number(span.getAttribute("data-start"));
    const node = span.firstChild;
    if (!node || units < start || units >= start + (node.textContent?.length ?? 0)) continue;
    range.setStart(node, units - start);
    range.setEnd(node, units - start + 1);
    return range.getBoundingClientRect().left - mirror.getBoundingClientRect().left + mirror.scrollLeft;
  }
  const last = mirror.lastElementChild;
  return last ? last.getBoundingClientRect().right - mirror.getBoundingClientRect().left + mirror.scrollLeft : 10;
}

export function problemOf(check: {
  detail?: string | null;
  position?: number | null;
  length?: number | null;
  hint?: string | null;
}): FilterProblem {
  return {
    detail: check.detail ?? "",
    position: check.position ?? 0,
    length: check.length ?? 1,
    hint: check.hint ?? null,
  };
}
