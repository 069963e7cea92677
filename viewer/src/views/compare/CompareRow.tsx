import { useRef, useState } from "react";
import type { CompareTurn, Comparison, CompareRow as Row } from "../../api/types.gen";
import { baseOfStore } from "../../base";
import { equalStart } from "../../model/compare";
import { trajectoryPath } from "../../model/route";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { useSeen } from "../../ui/seen";
import { type ReplyPlace, TokenReply } from "./TokenReply";
import { TurnView } from "./TurnView";

interface Props {
  row: Row;
  index: number;
  data: Comparison;
  baseline: number;
  mode: DiffMode;
}

export const DIFF_MODES = ["words", "tokens", "plain"] as const;
export type DiffMode = (typeof DIFF_MODES)[number];

/** One turn of every column; turns that are equal are one line that opens. */
export function CompareRow({ row, index, data, baseline, mode }: Props) {
  const t = useText();
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const seen = useSeen(box);
  if (row.equal) {
    const n = row.last_turn - row.first_turn + 1;
    const shown = row.turns.filter((turn): turn is CompareTurn => turn !== null);
    return (
      <div className="compare-equal">
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
          <span aria-hidden>{open ? "▾" : "▸"}</span> {t.compare.equal(n)}
          {row.tokens === null ? "" : ` · ${t.compare.tokens(row.tokens)}`}
        </button>
        {open && shown.map((turn) => <TurnView key={turn.turn} turn={turn} against={null} side="right" />)}
      </div>
    );
  }
  const first = data.first_difference;
  const isFirst = first !== null && row.first_turn <= first.turn && first.turn <= row.last_turn;
  const shared = equalStart(row.turns);
  const placeOf = (at: number | null): ReplyPlace | null => {
    const opId = at === null ? null : row.turns[at]?.op_id;
    return opId ? { trajectoryId: data.columns[at!]!.row.trajectory_id, opId } : null;
  };
  return (
    <div ref={box} className={`compare-row${isFirst ? " first" : ""}`} data-row={index}>
      {shared > 0 && (
        <div className="compare-equal compare-shared">
          <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
            <span aria-hidden>{open ? "▾" : "▸"}</span> {t.compare.equalMessages(shared)}
          </button>
          {open && (
            <TurnView
              turn={firstMessages(row.turns.find((turn) => turn !== null)!, shared)}
              against={null}
              side="right"
            />
          )}
        </div>
      )}
      {data.columns.map((column, at) => {
        const turn = row.turns[at] ?? null;
        // With two columns both sides are marked; with more, the others against the one that was chosen.
        const isBase = at === baseline;
        const otherAt = isBase ? (data.columns.length === 2 ? 1 - at : null) : baseline;
        const against = mode === "plain" || otherAt === null || !seen ? null : (row.turns[otherAt] ?? null);
        const side = isBase ? "left" : "right";
        return (
          <div key={column.row.trajectory_id} className="compare-cell">
            {turn ? (
              <>
                <div className="turn-head dim">
                  {t.compare.turn(turn.turn)}
                  {isFirst && (
                    <Link className="chip blue" href={firstHref(data, at)}>
                      {t.compare.first}
                    </Link>
                  )}
                </div>
                <TurnView
                  turn={turn}
                  from={shared}
                  against={against}
                  side={side}
                  reply={
                    mode === "tokens" && turn.op_id && seen ? (
                      <TokenReply place={placeOf(at)!} against={placeOf(otherAt)} side={side} />
                    ) : undefined
                  }
                />
              </>
            ) : (
              <div className="dim ended">{t.compare.ended}</div>
            )}
          </div>
        );
      })}
    </div>
  );
}

function firstMessages(turn: CompareTurn, count: number): CompareTurn {
  return { ...turn, messages: turn.messages.slice(0, count) };
}

function firstHref(data: Comparison, column: number): string {
  const { row, store } = data.columns[column]!;
  const path = baseOfStore(store) + trajectoryPath(row.trajectory_id);
  const token = data.first_difference?.sequence_index[column];
  return token === null || token === undefined ? path : `${path}?tab=tokens#tok=${token}`;
}
