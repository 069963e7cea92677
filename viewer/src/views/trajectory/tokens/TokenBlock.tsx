import { type CSSProperties, memo, type ReactNode } from "react";
import { count } from "../../../model/format";
import { hue, leaning, surprise } from "../../../model/scale";
import { type Block, escaped, type Tokens } from "../../../model/tokens";
import { useText } from "../../../text";
import { lineEnds, shownPiece } from "./Piece";

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

/** Some tokens of one segment, as flowing text; the margin says where one is. */
export const TokenBlock = memo(function TokenBlock({ tokens, block, metric, advantage, at, onPick }: Props) {
  const t = useText();
  const { segment } = block;
  const isPrompt = segment?.kind !== "response";
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
          {boxesOf({ tokens, block, metric, advantage, at }, isPrompt)}
        </div>
      </div>
    </>
  );
});

/** One box a token, and the line ends between them: a flat list, since thousands are made while one scrolls. */
function boxesOf({ tokens, block, metric, advantage, at }: Omit<Props, "onPick">, isPrompt: boolean): ReactNode[] {
  const boxes: ReactNode[] = [];
  const pieces = block.segment?.has_text !== false ? tokens.pieces : null;
  for (let index = block.start; index < block.end; index += 1) {
    const offset = index - tokens.start;
    const piece = pieces ? pieces[offset]! : null;
    boxes.push(
      <span
        key={index}
        data-tip={index}
        className={classOf(tokens, offset, isPrompt, metric, index === at)}
        style={styleOf(tokens, offset, block.segment, metric, advantage)}
      >
        {piece === null ? ` ${tokens.ids[offset]}` : shownPiece(piece)}
      </span>,
    );
    if (piece?.endsWith("\n")) boxes.push(lineEnds(piece));
  }
  return boxes;
}

function Version({ text, ids }: { text: string | null; ids: readonly number[] }) {
  return (
    <>
      {text !== null && <span className="traced">{escaped(text)}</span>}
      <span className="dim ids">{ids.join(" ")}</span>
    </>
  );
}

function classOf(tokens: Tokens, offset: number, isPrompt: boolean, metric: Metric, here: boolean): string {
  const mask = isPrompt ? null : tokens.mask[offset];
  let name = "k";
  if (mask === 0 && metric !== "plain") name += " masked";
  if (mask === 1 && metric === "mask") name += " trained";
  return here ? `${name} at` : name;
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
