import { useState } from "react";
import { useText } from "../../text";
import type { Writing } from "./writing";

/** Who writes, and which labels the keys give; this browser remembers both. */
export function LabelSetup({ writing }: { writing: Writing }) {
  const t = useText().labels;
  const [names, setNames] = useState<string | null>(null);
  const [author, setAuthor] = useState<string | null>(null);
  return (
    <details className="history">
      <summary className="dim">{t.writingAs(writing.author)}</summary>
      <form
        className="label-setup"
        onSubmit={(event) => {
          event.preventDefault();
          if (author !== null) writing.setAuthor(author);
          if (names !== null) writing.setNames(names);
          setAuthor(null);
          setNames(null);
          event.currentTarget.closest("details")?.removeAttribute("open");
        }}
      >
        <label>
          <span className="dim">{t.yourName}</span>
          <input
            className="input"
            maxLength={80}
            value={author ?? writing.author}
            onChange={(event) => setAuthor(event.target.value)}
          />
        </label>
        <label>
          <span className="dim">{t.keyLabels}</span>
          <input
            className="input"
            value={names ?? writing.names.join(", ")}
            onChange={(event) => setNames(event.target.value)}
          />
        </label>
        <button type="submit" className="button small">
          {t.save}
        </button>
      </form>
    </details>
  );
}
