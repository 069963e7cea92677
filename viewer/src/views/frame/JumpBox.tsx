import * as Ariakit from "@ariakit/react";
import { type RefObject, useState } from "react";
import { ask } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import type { Page } from "../../model/route";
import { useText } from "../../text";
import { useSettled } from "../../ui/time";
import { navigate } from "../../ui/url";

/** Goes anywhere: a step, a sample, an id or its first letters, a filter, a page. */
export function JumpBox({ input, page }: { input: RefObject<HTMLInputElement | null>; page: Page }) {
  const t = useText();
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const combobox = Ariakit.useComboboxStore({
    value: text,
    setValue: setText,
    open: open && text.trim() !== "",
    setOpen,
    resetValueOnHide: false,
    includesBaseElement: false,
  });
  const scope = page.name === "experiment" || page.name === "step" ? page : null;
  const asked = useSettled(text.trim(), 80);
  const step = page.name === "step" && /^\d+$/.test(page.step) ? Number(page.step) : undefined;
  const answer = useAnswer("/api/jump", {
    query: { q: asked, project: scope?.project, experiment: scope?.experiment, step },
    enabled: open && asked !== "",
  });
  const candidates = asked === "" ? [] : (answer.data?.candidates ?? []);
  // What is listed may still belong to what was typed before: then Enter asks first.
  const isFresh = asked === text.trim() && candidates.length > 0 && !answer.isPlaceholderData;
  const goToFirst = async () => {
    const query = { q: text.trim(), project: scope?.project, experiment: scope?.experiment, step };
    const [first] = await ask("/api/jump", undefined, query).then(
      (found) => found.candidates,
      () => [],
    );
    go(first?.href ?? `/search?q=${encodeURIComponent(text.trim())}`);
  };
  const go = (href: string) => {
    setText("");
    setOpen(false);
    navigate(href);
    document.getElementById("main")?.focus(); // so that the keys of the page work at once
  };
  return (
    <Ariakit.ComboboxProvider store={combobox}>
      <div className="jump">
        <Ariakit.Combobox
          ref={input}
          className="jump-input"
          placeholder={t.frame.jump}
          aria-label={t.frame.jumpLabel}
          autoSelect="always"
          onFocus={() => setOpen(true)}
          onKeyDown={(event) => {
            if (event.key === "Escape") input.current?.blur();
            if (event.key !== "Enter" || !text.trim()) return;
            event.preventDefault();
            const active = candidates.find((candidate) => candidate.href === combobox.getState().activeValue);
            if (isFresh) go((active ?? candidates[0]!).href);
            else void goToFirst();
          }}
        />
        <kbd aria-hidden>/</kbd>
      </div>
      <Ariakit.ComboboxPopover
        className="pop jump-pop"
        gutter={6}
        unmountOnHide
        autoFocusOnHide={false}
        sameWidth={false}
        aria-label={t.frame.jumpLabel}
      >
        {candidates.map((candidate) => (
          <Ariakit.ComboboxItem
            key={candidate.kind + candidate.href}
            className="item"
            value={candidate.href}
            setValueOnClick={false}
            hideOnClick={false}
            onClick={() => go(candidate.href)}
          >
            <span className="kind-word">{t.frame.kinds[candidate.kind]}</span>
            <bdi className="cut">{candidate.label}</bdi>
            <bdi className="detail cut">{candidate.detail}</bdi>
          </Ariakit.ComboboxItem>
        ))}
        {candidates.length === 0 && asked !== "" && !answer.isFetching && (
          <div className="item dim">{t.frame.noCandidates}</div>
        )}
      </Ariakit.ComboboxPopover>
    </Ariakit.ComboboxProvider>
  );
}
