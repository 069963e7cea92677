/** Completion at the cursor of a filter: what the server says could stand there. */
import { type KeyboardEvent, type RefObject, useEffect, useState } from "react";
import { ask } from "../../api/client";
import type { CompletionOption } from "../../api/types.gen";
import { pointsBefore, unitsBefore } from "../../model/where";

export interface Chosen {
  readonly text: string;
  readonly cursor: number;
}

interface Answer {
  readonly forText: string;
  readonly start: number;
  readonly end: number;
  readonly options: readonly CompletionOption[];
}

interface Props {
  text: string;
  place: { project?: string; experiment?: string; step?: number };
  active: boolean;
  input: RefObject<HTMLInputElement | null>;
}

const MOST = 50;

/** Where the word begins that is completed; blanks that were typed since the list came stand before it. */
function startOf(answer: Answer, text: string): number {
  let start = unitsBefore(text, answer.start);
  if (answer.forText !== text) while (text[start] === " ") start += 1;
  return start;
}

/** Whether an option still fits what stands there, when the list is a keystroke behind. */
function fits(option: CompletionOption, answer: Answer, text: string, cursor: number): boolean {
  if (answer.forText === text) return true;
  const start = startOf(answer, text);
  if (cursor < start || text.slice(0, start).trimEnd() !== answer.forText.slice(0, start).trimEnd()) return false;
  return option.text.toLowerCase().startsWith(text.slice(start, cursor).toLowerCase());
}

export function useCompletion({ text, place, active, input }: Props) {
  const [wanted, setWanted] = useState(0);
  const [answer, setAnswer] = useState<Answer | null>(null);
  // By its text: what is marked stays marked when a fuller answer replaces the list under it.
  const [marked, setMarked] = useState<string | null>(null);
  const { project, experiment, step } = place;
  useEffect(() => {
    if (!active || wanted === 0) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      const cursor = pointsBefore(text, input.current?.selectionStart ?? text.length);
      ask("/api/filter/complete", undefined, { project, experiment, step, text, cursor }, stop.signal)
        .then(({ start, end, options }) => {
          setAnswer({ forText: text, start, end, options: options.slice(0, MOST) });
        })
        .catch(() => undefined);
    }, 60);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [active, wanted, text, project, experiment, step, input]);
  const options = answer?.options ?? [];
  const index = options.findIndex((option) => option.text === marked);
  const open = active && wanted > 0 && options.length > 0;
  const choose = (option: CompletionOption): Chosen => {
    const start = startOf(answer!, text);
    // A list that is a keystroke behind still completes the word that stands at the cursor.
    const stale = answer!.forText !== text;
    const end = stale ? (input.current?.selectionStart ?? text.length) : unitsBefore(text, answer!.end);
    const inserted = text[end] === " " ? option.text : `${option.text} `;
    setWanted((n) => n + 1);
    setAnswer(null);
    setMarked(null);
    return { text: text.slice(0, start) + inserted + text.slice(end), cursor: start + option.text.length + 1 };
  };
  const handle = (event: KeyboardEvent): Chosen | null => {
    if (!open) {
      if (event.key === "ArrowDown" || (event.ctrlKey && event.key === " ")) {
        event.preventDefault();
        setWanted((n) => n + 1);
      }
      return null;
    }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const by = event.key === "ArrowDown" ? 1 : -1;
      const next = (index + by + options.length + (index < 0 && by < 0 ? 1 : 0)) % options.length;
      setMarked(options[next]!.text);
    } else if (event.key === "Escape") {
      event.preventDefault();
      setWanted(0);
    } else if ((event.key === "Tab" && !event.shiftKey) || (event.key === "Enter" && index >= 0)) {
      event.preventDefault();
      const cursor = input.current?.selectionStart ?? text.length;
      const option = (index < 0 ? options : [options[index]!]).find((each) => fits(each, answer!, text, cursor));
      if (option) return choose(option);
    }
    return null;
  };
  return {
    open,
    options,
    start: answer?.start ?? 0,
    active: index,
    ask: () => setWanted((n) => n + 1),
    close: () => setWanted(0),
    handle,
    choose,
  };
}

export type Completion = ReturnType<typeof useCompletion>;
