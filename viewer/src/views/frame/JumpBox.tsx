import { type KeyboardEvent, type RefObject, useId, useState } from "react";
import { ask } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import { pagesLike } from "../../model/jump";
import type { Page } from "../../model/route";
import { useText } from "../../text";
import { useSettled } from "../../ui/time";
import { navigate } from "../../ui/url";

/** Goes anywhere: a step, a sample, an id or its first letters, a filter, a page. */
export function JumpBox({ input, page }: { input: RefObject<HTMLInputElement | null>; page: Page }) {
  const t = useText();
  const id = useId();
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [marked, setMarked] = useState(0);
  const scope = page.name === "experiment" || page.name === "step" ? page : null;
  const typed = text.trim();
  const asked = useSettled(typed, 80);
  const place = {
    project: scope?.project,
    experiment: scope?.experiment,
    step: page.name === "step" && /^\d+$/.test(page.step) ? Number(page.step) : undefined,
  };
  const answer = useAnswer("/api/jump", { query: { q: asked, ...place }, enabled: open && asked !== "" });
  const pages = [
    { words: [t.frame.liveCrumb, "live"], href: "/live" },
    { words: [t.frame.search, "search"], href: "/search" },
    { words: [t.frame.experiments, "experiments"], href: "/" },
    { words: [t.frame.compare, "compare"], href: "/compare" },
  ];
  const candidates = asked === "" ? [] : [...pagesLike(asked, pages), ...(answer.data?.candidates ?? [])];
  const active = Math.min(marked, candidates.length - 1);
  const isListed = open && typed !== "" && asked !== "" && (candidates.length > 0 || !answer.isFetching);
  const go = (href: string) => {
    setText("");
    setOpen(false);
    navigate(href);
    document.getElementById("main")?.focus(); // so that the keys of the page work at once
  };
  const goToMarked = async () => {
    // What is listed may still belong to what was typed before: then the server is asked first.
    const isFresh = asked === typed && candidates.length > 0 && !answer.isPlaceholderData;
    if (isFresh) return go(candidates[active]!.href);
    const [first] = await ask("/api/jump", undefined, { q: typed, ...place }).then(
      (found) => found.candidates,
      () => [],
    );
    go(pagesLike(typed, pages)[0]?.href ?? first?.href ?? `/search?q=${encodeURIComponent(typed)}`);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") input.current?.blur();
    else if (event.key === "Enter" && typed) void goToMarked();
    else if (by && candidates.length > 0) setMarked((active + by + candidates.length) % candidates.length);
    else return;
    event.preventDefault();
  };
  return (
    <div className="jump">
      <input
        ref={input}
        className="jump-input"
        role="combobox"
        placeholder={t.frame.jump}
        aria-label={t.frame.jumpLabel}
        aria-autocomplete="list"
        aria-expanded={isListed}
        aria-controls={`${id}-list`}
        aria-activedescendant={isListed && active >= 0 ? `${id}-${active}` : undefined}
        spellCheck={false}
        autoComplete="off"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setMarked(0);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      <kbd aria-hidden>/</kbd>
      {isListed && (
        <div className="pop jump-pop" role="listbox" id={`${id}-list`} tabIndex={-1} aria-label={t.frame.jumpLabel}>
          {candidates.map((candidate, index) => (
            <div
              key={candidate.kind + candidate.href}
              id={`${id}-${index}`}
              className="item"
              role="option"
              tabIndex={-1}
              aria-selected={index === active}
              onMouseDown={(event) => event.preventDefault()}
              onClick={() => go(candidate.href)}
            >
              <span className="kind-word">{t.frame.kinds[candidate.kind]}</span>
              <bdi className="cut">{candidate.label}</bdi>
              <bdi className="detail cut">{candidate.detail}</bdi>
            </div>
          ))}
          {candidates.length === 0 && <div className="item dim">{t.frame.noCandidates}</div>}
        </div>
      )}
    </div>
  );
}
