import { useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import { ask } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import { pieces, pointsBefore, unitsBefore } from "../../model/where";
import { useText } from "../../text";
import { Menu } from "../../ui/Menu";
import { useSettled } from "../../ui/time";
import { CompletionList } from "./CompletionList";
import { useCompletion } from "./completion";
import { useFilterHistory } from "./history";

export interface FilterProblem {
  readonly detail: string;
  readonly position: number;
  readonly length: number;
  readonly hint: string | null;
}

interface Props {
  where: string;
  place: { project?: string; experiment?: string; step?: number };
  inputRef: React.RefObject<HTMLInputElement | null>;
  onApply: (where: string) => void;
}

/** The filter language, with what can stand at the cursor, and the error under the very character. */
export function FilterBar({ where, place, inputRef, onApply }: Props) {
  const t = useText();
  const id = useId();
  const [draft, setDraft] = useState(where);
  const [refused, setRefused] = useState<FilterProblem | null>(null);
  const [remembered, remember] = useFilterHistory();
  const mirror = useRef<HTMLDivElement>(null);
  const [focused, setFocused] = useState(false);
  useEffect(() => {
    setDraft(where);
    setRefused(null);
  }, [where]);
  const applied = useAnswer("/api/filter/check", { query: { where }, enabled: where !== "", keep: false });
  const problem = refused ?? (draft === where && applied.data && !applied.data.valid ? problemOf(applied.data) : null);
  const completion = useCompletion({ text: draft, place, active: focused, input: inputRef });
  const settledDraft = useSettled(draft, 400);
  useEffect(() => {
    if (settledDraft === "" || settledDraft === where) return setRefused(null);
    const stop = new AbortController();
    ask("/api/filter/check", undefined, { where: settledDraft }, stop.signal)
      .then((check) => {
        const found = check.valid ? null : problemOf(check);
        // What is only unfinished is no error yet.
        const end = pointsBefore(settledDraft, settledDraft.length);
        setRefused(found && found.position + found.length < end ? found : null);
      })
      .catch(() => undefined);
    return () => stop.abort();
  }, [settledDraft, where]);
  const apply = async (text: string) => {
    completion.close();
    const trimmed = text.trim();
    const check = trimmed === "" ? null : await ask("/api/filter/check", undefined, { where: trimmed });
    if (check && !check.valid) return setRefused(problemOf(check));
    if (trimmed) remember(trimmed);
    onApply(trimmed);
    setDraft(trimmed);
  };
  const change = (text: string, cursor: number) => {
    setDraft(text);
    setRefused(null);
    requestAnimationFrame(() => inputRef.current?.setSelectionRange(cursor, cursor));
  };
  useLayoutEffect(() => {
    if (mirror.current && inputRef.current) mirror.current.scrollLeft = inputRef.current.scrollLeft;
  });
  const sync = () => {
    if (mirror.current && inputRef.current) mirror.current.scrollLeft = inputRef.current.scrollLeft;
  };
  return (
    <div className="where">
      <div className={`where-box${problem ? " wrong" : ""}`}>
        <div className="where-mirror mono" ref={mirror} aria-hidden>
          <Coloured text={draft} problem={problem} />
        </div>
        <input
          ref={inputRef}
          className="where-input mono"
          role="combobox"
          aria-label={t.step.filter}
          aria-autocomplete="list"
          aria-expanded={completion.open}
          aria-controls={`${id}-list`}
          aria-activedescendant={completion.active >= 0 ? `${id}-${completion.active}` : undefined}
          aria-invalid={problem !== null}
          aria-describedby={problem ? `${id}-problem` : undefined}
          placeholder={t.step.filterPlaceholder}
          spellCheck={false}
          autoComplete="off"
          value={draft}
          onChange={(event) => {
            setDraft(event.target.value);
            setRefused(null);
            completion.ask();
          }}
          onScroll={sync}
          onFocus={() => setFocused(true)}
          onBlur={() => {
            setFocused(false);
            completion.close();
          }}
          onClick={completion.ask}
          onKeyDown={(event) => {
            const chosen = completion.handle(event);
            if (chosen) change(chosen.text, chosen.cursor);
            else if (!event.defaultPrevented && event.key === "Enter") void apply(draft);
            else if (!event.defaultPrevented && event.key === "Escape") inputRef.current?.blur();
          }}
        />
        {draft && (
          <button type="button" className="where-clear" aria-label={t.step.clear} onClick={() => void apply("")}>
            ×
          </button>
        )}
        <Menu
          label={<span aria-hidden>▾</span>}
          title={t.step.history}
          className="where-clear"
          choices={
            remembered.length
              ? remembered.map((each) => ({ label: <code>{each}</code>, run: () => void apply(each) }))
              : [{ label: t.step.noHistory, run: () => undefined }]
          }
        />
      </div>
      {completion.open && (
        <CompletionList
          id={id}
          completion={completion}
          mirror={mirror}
          onChoose={(chosen) => change(chosen.text, chosen.cursor)}
        />
      )}
      {problem && <Trouble id={`${id}-problem`} problem={problem} mirror={mirror} hidden={completion.open} />}
    </div>
  );
}

function Coloured({ text, problem }: { text: string; problem: FilterProblem | null }) {
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
  mirror: React.RefObject<HTMLDivElement | null>;
  hidden: boolean;
}

function Trouble({ id, problem, mirror, hidden }: TroubleProps) {
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

function problemOf(check: {
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
