import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useAnswer } from "../../../api/hooks";
import { numberOf } from "../../../api/number";
import type { TokenRange, TrajectoryHead } from "../../../api/types.gen";
import { count, measure } from "../../../model/format";
import { blockAt, blocksOf, TOKENS_AT_ONCE, tokensOf } from "../../../model/tokens";
import { useText } from "../../../text";
import { HoverTip } from "../../../ui/HoverTip";
import { useKeys } from "../../../ui/keys";
import { Segments } from "../../../ui/Segments";
import { setAnchor, setQuery, useUrl } from "../../../ui/url";
import { ProblemPanel } from "../../parts/Problem";
import { Minimap } from "./Minimap";
import { type Metric, TokenBlock } from "./TokenBlock";
import { TokenLine, TokenTip } from "./TokenTip";
import "./tokens.css";

const METRICS = ["logprob", "mask", "policy", "advantage", "plain"] as const;
const LINE = 22;
const PER_LINE = 22;

/** The one sequence of the trajectory: what the model saw and produced, token by token. */
export default function TokensTab({ head }: { head: TrajectoryHead }) {
  const t = useText();
  const path = { trajectory_id: head.row.trajectory_id };
  const wanted = Number(useUrl().anchor.get("tok") ?? 0);
  // The window with the token that is pointed at comes first.
  const start = Math.floor((Number.isFinite(wanted) ? wanted : 0) / TOKENS_AT_ONCE) * TOKENS_AT_ONCE;
  const answer = useAnswer("/api/trajectory/{trajectory_id}/tokens", {
    path,
    query: { start, end: start + TOKENS_AT_ONCE },
    enabled: head.has_tokens,
  });
  if (!head.has_tokens) return <NoTokens />;
  if (answer.error && !answer.data)
    return <ProblemPanel problem={answer.error} onRetry={() => void answer.refetch()} />;
  if (!answer.data) return <div className="dim pane-note late">{t.tokens.loading}</div>;
  return <Sequence range={answer.data} head={head} />;
}

function Sequence({ range, head }: { range: TokenRange; head: TrajectoryHead }) {
  const t = useText();
  const { query, anchor } = useUrl();
  const advantage = numberOf(head.row.advantage);
  const tokens = useMemo(() => tokensOf(range), [range]);
  const blocks = useMemo(() => blocksOf(tokens), [tokens]);
  const usual: Metric = range.has_logprobs ? "logprob" : range.has_mask ? "mask" : "plain";
  const metric = METRICS.find((each) => each === query.get("fill") && available(each, range, advantage)) ?? usual;
  const tok = anchor.get("tok");
  const at = tok === null ? null : Math.min(range.end - 1, Math.max(range.start, Number(tok)));
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: blocks.length,
    getScrollElement: () => box.current,
    estimateSize: (index) => LINE * Math.max(1, Math.ceil((blocks[index]!.end - blocks[index]!.start) / PER_LINE)),
    overscan: 1,
  });
  const moveTo = useCallback((index: number) => setAnchor({ tok: String(index), op: null }), []);
  useScrollToToken(at, blocks, virtual, box);
  const op = anchor.get("op");
  const segment =
    op === null ? undefined : range.segments.find((each) => each.op_id === op && each.kind === "response");
  useEffect(() => {
    if (segment && tok === null) virtual.scrollToIndex(blockAt(blocks, segment.start), { align: "start" });
  }, [segment, tok, blocks, virtual]);
  const [rank, setRank] = useState(0);
  const nextUnlikely = () => {
    const next = range.least_likely[rank % range.least_likely.length];
    if (!next) return;
    moveTo(next.index);
    setRank(rank + 1);
  };
  useKeys([{ keys: "u", label: t.keys.unlikely, run: nextUnlikely }]);
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: PER_LINE, ArrowUp: -PER_LINE }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    moveTo(at === null ? range.start : Math.min(range.end - 1, Math.max(range.start, at + by)));
  };
  const items = virtual.getVirtualItems();
  const visible = [
    blocks[items[0]?.index ?? 0]?.start ?? 0,
    blocks[items.at(-1)?.index ?? 0]?.end ?? range.total,
  ] as const;
  return (
    <div className="tokens">
      <div className="tokens-bar">
        <Segments
          label={t.tokens.metric}
          value={metric}
          options={METRICS.map((each) => ({
            value: each,
            label: t.tokens.metrics[each],
            disabled: !available(each, range, advantage),
          }))}
          onChange={(next) => setQuery({ fill: next === usual ? null : next }, { replace: true })}
        />
        <span className="dim cut">
          {t.tokens.summary(range.total, range.trained)}
          {metric === "advantage" && advantage !== null && ` · ${t.tokens.pushed(measure(advantage))}`}
        </span>
        {!range.has_text && <span className="dim cut">{t.tokens.noText}</span>}
        <span className="grow" />
        {range.least_likely.length > 0 && (
          <button type="button" className="button small bare" onClick={nextUnlikely}>
            {t.tokens.leastLikely} <kbd>u</kbd>
          </button>
        )}
      </div>
      <TokenLine tokens={tokens} index={at} />
      <div className="tokens-area">
        <div
          className="tokens-scroll"
          ref={box}
          tabIndex={0}
          role="application"
          aria-label={t.tokens.area}
          onKeyDown={onKeyDown}
        >
          <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
            {items.map((item) => (
              <div
                key={item.key}
                ref={virtual.measureElement}
                data-index={item.index}
                className="virtual-item"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <TokenBlock
                  tokens={tokens}
                  block={blocks[item.index]!}
                  metric={metric}
                  advantage={advantage}
                  at={at !== null && blocks[item.index]!.start <= at && at < blocks[item.index]!.end ? at : null}
                  onPick={moveTo}
                />
              </div>
            ))}
          </div>
          {range.end < range.total && (
            <button type="button" className="button small tokens-more" onClick={() => moveTo(range.end)}>
              {count(range.end)} →
            </button>
          )}
        </div>
        <Minimap range={range} visible={visible} onJump={moveTo} label={`${t.tokens.minimap}, ${head.row.name}`} />
      </div>
      <HoverTip container={box} render={(index) => <TokenTip tokens={tokens} index={Number(index)} />} />
    </div>
  );
}

/** Scrolls the block into view first, then, once it is drawn, the token itself. */
function useScrollToToken(
  at: number | null,
  blocks: ReturnType<typeof blocksOf>,
  virtual: { scrollToIndex: (index: number, options: { align: "auto" | "start" | "center" }) => void },
  box: React.RefObject<HTMLDivElement | null>,
): void {
  useEffect(() => {
    if (at === null) return;
    const find = () => box.current?.querySelector(`[data-tip="${at}"]`);
    if (!find()) virtual.scrollToIndex(blockAt(blocks, at), { align: "start" });
    let tries = 8;
    let frame = requestAnimationFrame(function settle() {
      const token = find();
      if (token) token.scrollIntoView({ block: "nearest" });
      tries -= 1;
      if (tries > 0) frame = requestAnimationFrame(settle);
    });
    return () => cancelAnimationFrame(frame);
  }, [at, blocks, virtual, box]);
}

function available(metric: Metric, range: TokenRange, advantage: number | null): boolean {
  if (metric === "logprob") return range.has_logprobs;
  if (metric === "mask") return range.has_mask;
  if (metric === "policy") return range.segments.some((segment) => segment.policy_version !== null);
  if (metric === "advantage") return advantage !== null;
  return true;
}

function NoTokens() {
  const t = useText();
  return (
    <div className="empty">
      <h1>{t.empty.noTokens}</h1>
      <p>{t.empty.noTokensText}</p>
      <pre>{'rolltrace.init("project", "experiment", token2text=True)'}</pre>
    </div>
  );
}
