import { type CSSProperties, Fragment, memo } from "react";
import { count } from "../../../model/format";
import { hue, leaning, surprise } from "../../../model/scale";
import { type Block, escaped, type Tokens } from "../../../model/tokens";
import { useText } from "../../../text";
import { lineEnds, Piece } from "./Piece";

export type Metric = "logprob" | "mask" | "policy" | "advantage" | "plain";

interface Props {
  tokens: Tokens;
  block: Block;
  metric: Metric;
  /** Of the trajectory: what each of its trained tokens is pushed by. */
  advantage: number | null;
  at: number | null;
  onPick: (index: number) => void;
}

/** A few hundred tokens of one segment, as flowing text; the margin says where one is. */
export const TokenBlock = memo(function TokenBlock({ tokens, block, metric, advantage, at, onPick }: Props) {
  const t = useText();
  const { segment } = block;
  const isPrompt = segment?.kind !== "response";
  const indexes = Array.from({ length: block.end - block.start }, (_, offset) => block.start + offset);
  return (
    <>
      {block.break && (
        <div className="token-break" role="note">
          <div className="chip">{t.tokens.break(block.break.turn)}</div>
          <span className="dim">{t.tokens.breakTotals(block.break.before_total, block.break.after_total)}</span>
          <dl>
            <dt>{t.tokens.breakBefore}</dt>
            <dd className="mono" tabIndex={0}>
              <Version text={block.break.before_text} ids={block.break.before_ids} />
            </dd>
            <dt>{t.tokens.breakAfter}</dt>
            <dd className="mono" tabIndex={0}>
              <Version text={block.break.after_text} ids={block.break.after_ids} />
            </dd>
          </dl>
        </div>
      )}
      <div className="token-block">
        <div className="gutter">
          {block.opens && segment && !isPrompt && <div>{t.tokens.turn(segment.turn)}</div>}
          <div>{count(block.start)}</div>
        </div>
        <div
          className={`flow mono${isPrompt ? " prompt" : ""}`}
          onClick={(event) => {
            const token = (event.target as Element).closest("[data-tip]");
            if (token) onPick(Number(token.getAttribute("data-tip")));
          }}
        >
          {indexes.map((index) => {
            const offset = index - tokens.start;
            const piece = tokens.pieces && segment?.has_text !== false ? tokens.pieces[offset]! : null;
            return (
              <Fragment key={index}>
                <span
                  data-tip={index}
                  className={classOf(tokens, offset, isPrompt, metric, index === at)}
                  style={styleOf(tokens, offset, segment, metric, advantage)}
                >
                  {piece === null ? ` ${tokens.ids[offset]}` : <Piece text={piece} />}
                </span>
                {lineEnds(piece)}
              </Fragment>
            );
          })}
        </div>
      </div>
    </>
  );
});

function Version({ text, ids }: { text: string | null; ids: readonly number[] }) {
  return (
    <>
      {text !== null && <span className="traced">{escaped(text)}</span>}
      <span className="dim ids">{ids.join(" ")}</span>
    </>
  );
}

function classOf(tokens: Tokens, offset: number, isPrompt: boolean, metric: Metric, here: boolean): string {
  const masked = !isPrompt && tokens.mask[offset] === 0;
  const trained = metric === "mask" && !isPrompt && tokens.mask[offset] === 1;
  return ["k", masked && metric !== "plain" ? "masked" : "", trained ? "trained" : "", here ? "at" : ""]
    .filter(Boolean)
    .join(" ");
}

function styleOf(
  tokens: Tokens,
  offset: number,
  segment: Block["segment"],
  metric: Metric,
  advantage: number | null,
): CSSProperties | undefined {
  if (metric === "logprob") {
    const logprob = tokens.logprobs[offset];
    if (logprob === null || logprob === undefined) return undefined;
    const strength = surprise(logprob);
    return strength > 0.05 ? { backgroundColor: `rgb(var(--heat) / ${(strength * 0.75).toFixed(2)})` } : undefined;
  }
  if (segment?.kind !== "response") return undefined;
  if (metric === "policy" && segment.policy_version !== null)
    return { backgroundColor: `hsl(${hue(segment.policy_version)} 60% 50% / 0.22)` };
  if (metric === "advantage" && advantage !== null && tokens.mask[offset] !== 0) {
    const lean = leaning(advantage);
    const colour = lean < 0 ? "--heat" : "--cold";
    return lean === 0
      ? undefined
      : { backgroundColor: `rgb(var(${colour}) / ${(0.14 + Math.abs(lean) * 0.5).toFixed(2)})` };
  }
  return undefined;
}
