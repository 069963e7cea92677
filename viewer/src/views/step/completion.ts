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

export function useCompletion({ text, place, active, input }: Props) {
  const [wanted, setWanted] = useState(0);
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [index, setIndex] = useState(-1);
  const { project, experiment, step } = place;
  useEffect(() => {
    if (!active || wanted === 0) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      const cursor = pointsBefore(text, input.current?.selectionStart ?? text.length);
      ask("/api/filter/complete", undefined, { project, experiment, step, text, cursor }, stop.signal)
        .then(({ start, end, options }) => {
          setAnswer({ forText: text, start, end, options: options.slice(0, MOST) });
          setIndex(-1);
        })
        .catch(() => undefined);
    }, 60);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [active, wanted, text, project, experiment, step, input]);
  const options = answer?.options ?? [];
  const open = active && wanted > 0 && options.length > 0;
  const choose = (option: CompletionOption): Chosen => {
    const start = unitsBefore(text, answer!.start);
    const end = unitsBefore(text, answer!.end);
    const inserted = text[end] === " " ? option.text : `${option.text} `;
    setWanted((n) => n + 1);
    setAnswer(null);
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
      setIndex((now) => (now + by + options.length + (now < 0 && by < 0 ? 1 : 0)) % options.length);
    } else if (event.key === "Escape") {
      event.preventDefault();
      setWanted(0);
    } else if ((event.key === "Tab" && !event.shiftKey) || (event.key === "Enter" && index >= 0)) {
      const option = options[Math.max(0, index)];
      if (option && answer?.forText === text) {
        event.preventDefault();
        return choose(option);
      }
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
