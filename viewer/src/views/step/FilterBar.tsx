import { useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import { ask } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import { pointsBefore } from "../../model/where";
import { useText } from "../../text";
import { Menu } from "../../ui/Menu";
import { useSettled } from "../../ui/time";
import { CompletionList } from "./CompletionList";
import { useCompletion } from "./completion";
import { Coloured, type FilterProblem, problemOf, Trouble } from "./FilterText";
import { useFilterHistory } from "./history";

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
  const cursorAfter = useRef<number | null>(null);
  const change = (text: string, cursor: number) => {
    cursorAfter.current = cursor;
    setDraft(text);
    setRefused(null);
  };
  // Before the next key can come: set a frame later, the cursor would jump back under somebody who types on.
  useLayoutEffect(() => {
    const cursor = cursorAfter.current;
    cursorAfter.current = null;
    if (cursor !== null) inputRef.current?.setSelectionRange(cursor, cursor);
  });
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
