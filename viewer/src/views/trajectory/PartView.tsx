import { type ReactNode, useState } from "react";
import { imageSrc } from "../../api/source";
import type { Part } from "../../api/types.gen";
import { codePieces, withFences } from "../../model/code";
import { jsonPieces, prettyJson } from "../../model/json";
import { FOLD_AT, folded } from "../../model/messages";
import { useText } from "../../text";
import { later } from "../../ui/later";
import { script } from "../../ui/script";

const Markdown = later(
  script(() => import("./Markdown")),
  ({ text }) => text,
);

interface Props {
  part: Part;
  markdown?: boolean;
  /** Asks for the whole message, where this part was cut. */
  onLoad: () => Promise<unknown>;
}

/** A piece of a message. Text stays text, whatever is in it. */
export function PartView({ part, markdown, onLoad }: Props) {
  switch (part.kind) {
    case "text":
      return (
        <LongText
          part={part}
          onLoad={onLoad}
          className="traced text"
          render={markdown ? (text) => <Markdown text={text} /> : (text) => <PlainText text={text} />}
        />
      );
    case "reasoning":
      return <Reasoning part={part} onLoad={onLoad} />;
    case "image":
      return <ImagePart part={part} />;
    case "json":
      return <LongText part={part} onLoad={onLoad} className="traced mono" render={(text) => <Json text={text} />} />;
  }
}

export function Json({ text }: { text: string }) {
  return jsonPieces(prettyJson(text)).map((piece, index) => (
    <span key={index} className={`j-${piece.kind}`}>
      {piece.text}
    </span>
  ));
}

/** Text as it was written; what stands between fences is coloured as code. */
function PlainText({ text }: { text: string }) {
  return withFences(text).map((piece, index) =>
    piece.kind === "text" ? (
      piece.text
    ) : (
      <span key={index} className={`mono ${piece.kind}`}>
        {piece.kind === "code" ? <Code text={piece.text} /> : piece.text}
      </span>
    ),
  );
}

export function Code({ text }: { text: string }) {
  return codePieces(text).map((piece, index) => (
    <span key={index} className={`c-${piece.kind}`}>
      {piece.text}
    </span>
  ));
}

function Reasoning({ part, onLoad }: Props) {
  const t = useText();
  const [open, setOpen] = useState(false);
  return (
    <div className="reasoning">
      <button type="button" className="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span aria-hidden>{open ? "▾" : "▸"}</span> {t.trajectory.reasoning} ·{" "}
        {t.trajectory.chars(part.chars || (part.text ?? "").length)}
      </button>
      {open && <LongText part={part} onLoad={onLoad} className="traced text thought" />}
    </div>
  );
}

interface LongProps {
  part: Part;
  className: string;
  onLoad: () => Promise<unknown>;
  render?: (text: string) => ReactNode;
}

/** Long text is folded with its size; what the server cut is read when it is asked for. */
export function LongText({ part, className, onLoad, render }: LongProps) {
  const t = useText();
  const [open, setOpen] = useState(false);
  const text = part.text ?? "";
  const chars = Math.max(part.chars ?? 0, 0) || text.length;
  const isCut = chars > Array.from(text).length;
  const isLong = text.length > FOLD_AT || isCut;
  const shown = open ? text : folded(text);
  const unfold = async () => {
    if (isCut) await onLoad();
    setOpen(true);
  };
  return (
    <div className={className}>
      {render ? render(shown) : shown}
      {isLong && !(open && !isCut) && (
        <button type="button" className="textlink unfold" onClick={() => void unfold()}>
          … {t.trajectory.showAll(chars)}
        </button>
      )}
      {isLong && open && !isCut && (
        <button type="button" className="textlink unfold" onClick={() => setOpen(false)}>
          {t.trajectory.showLess}
        </button>
      )}
    </div>
  );
}

function ImagePart({ part }: { part: Part }) {
  const t = useText();
  const [failed, setFailed] = useState(false);
  if (!part.blob || failed)
    return (
      <span className="chip quiet">
        {t.trajectory.imageNotKept} {part.detail}
      </span>
    );
  return (
    <img
      className="image"
      src={imageSrc(part.blob)}
      alt={`${t.trajectory.image} ${part.detail ?? ""}`}
      onError={() => setFailed(true)}
    />
  );
}
