import { useEffect, useRef, useState } from "react";
import { useText } from "../../text";

interface Props {
  before: string;
  /** An empty text takes the note back. */
  onSave: (text: string) => void;
  onCancel: () => void;
}

/** One's own note on a place: saving it takes the place of the one before. */
export function NoteEditor({ before, onSave, onCancel }: Props) {
  const t = useText();
  const [text, setText] = useState(before);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(before.length, before.length);
  }, [before]);
  return (
    <form
      className="note-editor"
      onSubmit={(event) => {
        event.preventDefault();
        onSave(text.trim());
      }}
    >
      <textarea
        ref={area}
        className="input"
        rows={4}
        maxLength={20000}
        aria-label={t.labels.note}
        placeholder={t.labels.notePlaceholder}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") onCancel();
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onSave(text.trim());
        }}
      />
      <div className="row">
        <button type="submit" className="button small primary">
          {t.labels.save}
        </button>
        <button type="button" className="button small bare" onClick={onCancel}>
          {t.labels.cancel}
        </button>
        <span className="dim">{t.labels.saveKeys}</span>
      </div>
    </form>
  );
}
