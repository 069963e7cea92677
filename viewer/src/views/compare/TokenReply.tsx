import { Fragment, useMemo, useRef, useState } from "react";
import { useAnswer } from "../../api/hooks";
import { tokenDiff } from "../../model/diff";
import { FIRST_TOKENS, type Reply, replyOf } from "../../model/tokens";
import { useText } from "../../text";
import { HoverTip } from "../../ui/HoverTip";
import { lineEnds, Piece } from "../trajectory/tokens/Piece";
import { TokenTip } from "../trajectory/tokens/TokenTip";
import "../trajectory/tokens/tokens.css";

export interface ReplyPlace {
  readonly trajectoryId: string;
  readonly opId: string;
}

interface Props {
  place: ReplyPlace;
  /** The reply that it is compared with; null shows it unmarked. */
  against: ReplyPlace | null;
  side: "left" | "right";
}

const MOST_AT_ONCE = 1500;

/** A reply token by token, those marked that the other does not have. */
export function TokenReply({ place, against, side }: Props) {
  const t = useText();
  const box = useRef<HTMLDivElement>(null);
  const [whole, setWhole] = useState(false);
  const own = useReply(place);
  const other = useReply(against);
  const marks = useMemo(() => (own && other ? tokenDiff(own.ids, other.ids).left : null), [own, other]);
  if (own === undefined) return <div className="dim late">{t.tokens.loading}</div>;
  if (own === null) return <div className="dim">{t.compare.noTokens}</div>;
  const shown = whole ? own.ids.length : Math.min(MOST_AT_ONCE, own.ids.length);
  return (
    <div ref={box} className={`flow mono reply-tokens ${side}`}>
      {own.ids.slice(0, shown).map((id, at) => {
        const piece = own.tokens.pieces?.[own.start - own.tokens.start + at] ?? null;
        return (
          <Fragment key={at}>
            <span data-tip={own.start + at} className={`k${marks?.[at] ? " differs" : ""}`}>
              {piece === null ? ` ${id}` : <Piece text={piece} />}
            </span>
            {lineEnds(piece)}
          </Fragment>
        );
      })}
      {shown < own.ids.length && (
        <button type="button" className="textlink unfold" onClick={() => setWhole(true)}>
          … {t.compare.tokens(own.ids.length)}
        </button>
      )}
      <HoverTip container={box} render={(index) => <TokenTip tokens={own.tokens} index={Number(index)} />} />
    </div>
  );
}

/** Undefined while it is read, null if it has no tokens. */
function useReply(place: ReplyPlace | null): Reply | null | undefined {
  const answer = useAnswer("/api/trajectory/{trajectory_id}/tokens", {
    path: { trajectory_id: place?.trajectoryId ?? "" },
    query: FIRST_TOKENS,
    enabled: place !== null,
    keep: false,
  });
  const range = answer.data;
  const opId = place?.opId;
  const reply = useMemo(() => (range && opId !== undefined ? replyOf(range, opId) : null), [range, opId]);
  return place !== null && answer.isPending ? undefined : reply;
}
