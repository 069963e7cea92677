import { type ReactNode, useState } from "react";
import { imageSrc } from "../../api/source";
import type { CompareTurn, Message, Part, ToolCall } from "../../api/types.gen";
import { type DiffPiece, knownDiff } from "../../model/diff";
import { seconds } from "../../model/format";
import { prettyJson } from "../../model/json";
import { useText } from "../../text";
import { Json } from "../trajectory/PartView";
import "../trajectory/trajectory.css";

interface Props {
  turn: CompareTurn;
  /** The same turn of another trajectory; null shows the text unmarked. */
  against: CompareTurn | null;
  side: "left" | "right";
  /** Leave out so many messages: those that all columns begin with. */
  from?: number;
  /** Stands for the text of the model's reply. */
  reply?: ReactNode;
}

const FOLD_LINES_AT = 4000;

/** What was said in a turn, with the words marked that the other does not have. */
export function TurnView({ turn, against, side, from = 0, reply }: Props) {
  return turn.messages
    .slice(from)
    .map((message, index) => (
      <OneMessage
        key={message.index}
        message={message}
        against={against ? partner(message, from + index, against) : null}
        compared={against !== null}
        side={side}
        reply={message.op_id === turn.op_id ? reply : undefined}
      />
    ));
}

function partner(message: Message, index: number, other: CompareTurn): Message | null {
  const same = other.messages[index];
  return same?.role === message.role ? same : (other.messages.find((each) => each.role === message.role) ?? null);
}

interface MessageProps extends Pick<Props, "side" | "reply"> {
  message: Message;
  against: Message | null;
  compared: boolean;
}

function OneMessage({ message, against, side, compared, reply }: MessageProps) {
  return (
    <div className="compare-message">
      <div className="role">
        <bdi>{message.role}</bdi>
      </div>
      {reply ?? <Texts message={message} against={against} compared={compared} side={side} />}
      {message.calls.map((call, index) => (
        <Call key={index} call={call} against={compared ? (against?.calls[index] ?? null) : undefined} side={side} />
      ))}
    </div>
  );
}

function Texts({ message, against, side, compared }: MessageProps) {
  const texts = (from: Message | null, kind: Part["kind"]) => from?.parts.filter((part) => part.kind === kind) ?? [];
  return (
    <>
      {texts(message, "reasoning").map((part, index) => (
        <Reasoning
          key={`r${index}`}
          part={part}
          against={compared ? (texts(against, "reasoning")[index]?.text ?? "") : null}
          side={side}
        />
      ))}
      {message.parts
        .filter((part) => part.kind !== "reasoning")
        .map((part, index) =>
          part.kind === "image" ? (
            <ImageMark key={index} part={part} />
          ) : (
            <div key={index} className="traced text">
              <Marked
                text={part.text ?? ""}
                against={compared ? (texts(against, part.kind)[index]?.text ?? "") : null}
                side={side}
              />
            </div>
          ),
        )}
    </>
  );
}

function Reasoning({ part, against, side }: { part: Part; against: string | null; side: Props["side"] }) {
  const t = useText();
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" className="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span aria-hidden>{open ? "▾" : "▸"}</span> {t.trajectory.reasoning} ·{" "}
        {t.trajectory.chars(part.chars || (part.text ?? "").length)}
        {against !== null && against === (part.text ?? "") ? ` · ${t.compare.same}` : ""}
      </button>
      {open && (
        <div className="traced text thought">
          <Marked text={part.text ?? ""} against={against} side={side} />
        </div>
      )}
    </>
  );
}

function ImageMark({ part }: { part: Part }) {
  const t = useText();
  if (!part.blob) return <span className="chip quiet">{t.trajectory.imageNotKept}</span>;
  return <img className="image" src={imageSrc(part.blob)} alt={`${t.trajectory.image} ${part.detail ?? ""}`} />;
}

/** `against`: undefined shows it unmarked, null means that the other has no such call. */
function Call({ call, against, side }: { call: ToolCall; against: ToolCall | null | undefined; side: Props["side"] }) {
  const t = useText();
  const failed = Boolean(call.error) || call.status === "error";
  const argumentsOf = (each: ToolCall) => prettyJson(each.arguments.text ?? "");
  const resultOf = (each: ToolCall) =>
    (each.result ?? []).map((part) => part.text ?? "").join("\n") || (each.error ?? "");
  const result = resultOf(call);
  return (
    <div className={`call${failed ? " failed" : ""}`}>
      <div className="call-head mono">
        <div className="traced grow">
          <bdi className="call-name">
            <Marked text={call.name} against={against === undefined ? null : (against?.name ?? "")} side={side} />
          </bdi>
          <span className="dim">(</span>
          {against === undefined ? (
            <Json text={call.arguments.text ?? ""} />
          ) : (
            <Marked text={argumentsOf(call)} against={against ? argumentsOf(against) : ""} side={side} />
          )}
          <span className="dim">)</span>
        </div>
        {typeof call.duration_s === "number" && <span className="dim call-time">{seconds(call.duration_s)}</span>}
      </div>
      <div className="call-result mono traced">
        {result ? (
          <Marked text={result} against={against === undefined ? null : against ? resultOf(against) : ""} side={side} />
        ) : (
          <span className="dim">{t.trajectory.noResult}</span>
        )}
      </div>
    </div>
  );
}

/** Text with what the other text does not have marked; long text is folded. */
function Marked({ text, against, side }: { text: string; against: string | null; side: Props["side"] }) {
  const t = useText();
  const [open, setOpen] = useState(false);
  const isLong = text.length > FOLD_LINES_AT && !open;
  const shown = isLong ? text.slice(0, FOLD_LINES_AT) : text;
  const pieces =
    against === null
      ? [{ text: shown, differs: false }]
      : differing(shown, isLong ? against.slice(0, FOLD_LINES_AT) : against, side);
  const Mark = side === "left" ? "del" : "ins";
  return (
    <>
      {pieces.map((piece, index) => (piece.differs ? <Mark key={index}>{piece.text}</Mark> : piece.text))}
      {isLong && (
        <button type="button" className="textlink unfold" onClick={() => setOpen(true)}>
          … {t.trajectory.showAll(text.length)}
        </button>
      )}
    </>
  );
}

function differing(text: string, against: string, side: Props["side"]): readonly DiffPiece[] {
  return side === "left" ? knownDiff(text, against).left : knownDiff(against, text).right;
}
