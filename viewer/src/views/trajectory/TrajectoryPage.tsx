import { disableGlobalCursorStyles, Panel, PanelGroup, PanelResizeHandle } from "react-resizable-panels";
import { useAnswer } from "../../api/hooks";
import type { TrajectoryHead } from "../../api/types.gen";
import { rangeFrom } from "../../model/cells";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { Link } from "../../ui/Link";
import { later } from "../../ui/later";
import { useStored } from "../../ui/stored";
import { hrefWith, setQuery, useUrl } from "../../ui/url";
import { Waiting } from "../../ui/Waiting";
import { TABS as SCRIPTS } from "../pages";
import { Banner } from "../parts/Banner";
import { ProblemPanel } from "../parts/Problem";
import { ShareLink } from "../parts/ShareLink";
import { Conversation } from "./Conversation";
import { Facts } from "./Facts";
import { useTrajectoryKeys } from "./keys";
import { Outline } from "./Outline";
import { SiblingBar } from "./SiblingBar";
import "./trajectory.css";

const TokensTab = later(SCRIPTS.tokens);
const OpsTab = later(SCRIPTS.ops);
const TransitionsTab = later(SCRIPTS.transitions);
const RawTab = later(SCRIPTS.raw);

// It would write a style element into the page, which the content security policy forbids; the handles have a cursor of their own.
disableGlobalCursorStyles();

export const TABS = ["conversation", "tokens", "ops", "transitions", "raw"] as const;
export type Tab = (typeof TABS)[number];

/** One rollout: its siblings, its ops, what was said, every token, the facts. */
export default function TrajectoryPage({ id }: { id: string }) {
  const { query } = useUrl();
  const status = useAnswer("/api/status");
  const answer = useAnswer("/api/trajectory/{trajectory_id}", {
    path: { trajectory_id: id },
    every: status.data?.recording ? 3000 : false,
  });
  const tab = (TABS.find((each) => each === query.get("tab")) ?? "conversation") satisfies Tab;
  if (answer.error && !answer.data)
    return <ProblemPanel problem={answer.error} onRetry={() => void answer.refetch()} />;
  if (!answer.data) return <Waiting columns={["2fr", "7fr", "2fr"]} />;
  return <Loaded head={answer.data} tab={tab} stale={answer.isPlaceholderData} />;
}

function Loaded({ head, tab, stale }: { head: TrajectoryHead; tab: Tab; stale: boolean }) {
  const t = useText();
  const { row } = head;
  const [outlineShut, toggleOutline] = usePane("outline-shut");
  const [factsShut, toggleFacts] = usePane("facts-shut");
  const range = rangeFrom(head.reward_range);
  useTrajectoryKeys(head, tab, { toggleOutline, toggleFacts });
  useKeys(factsShut ? [{ keys: "n", label: t.labels.writeNote, run: toggleFacts }] : []); // that is where notes are
  return (
    <div className="trajectory" aria-busy={stale}>
      <h1 className="sr">{row.name}</h1>
      {row.superseded && <Banner tone="note">{t.banner.superseded}</Banner>}
      {head.pruned !== null && (
        <Banner tone="note" details={[head.pruned]}>
          {t.banner.pruned}
        </Banner>
      )}
      {head.losses.length > 0 && (
        <Banner tone="bad" details={head.losses.map((loss) => `${loss.reason}: ${loss.count}`)}>
          {t.banner.lossesHere(head.losses.reduce((sum, loss) => sum + loss.count, 0))}
        </Banner>
      )}
      <SiblingBar head={head} range={range} />
      <PanelGroup direction="horizontal" autoSaveId="rolltrace.trajectory" className="panes">
        {!outlineShut && (
          <>
            <Panel id="outline" order={1} defaultSize={shareOf(232)} minSize={10} maxSize={40} className="pane">
              <Outline head={head} onShut={toggleOutline} />
            </Panel>
            <PanelResizeHandle className="handle" aria-label={t.trajectory.resize} />
          </>
        )}
        <Panel id="main" order={2} minSize={30} className="pane main-pane">
          <Tabs
            tab={tab}
            head={head}
            outlineShut={outlineShut}
            factsShut={factsShut}
            onOutline={toggleOutline}
            onFacts={toggleFacts}
          />
          <div className="tab-body" role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`}>
            {tab === "conversation" && <Conversation head={head} />}
            {tab === "tokens" && <TokensTab key={row.trajectory_id} head={head} />}
            {tab === "ops" && <OpsTab head={head} />}
            {tab === "transitions" && <TransitionsTab head={head} />}
            {tab === "raw" && <RawTab head={head} />}
          </div>
        </Panel>
        {!factsShut && (
          <>
            <PanelResizeHandle className="handle" aria-label={t.trajectory.resize} />
            <Panel id="facts" order={3} defaultSize={shareOf(272)} minSize={12} maxSize={40} className="pane">
              <Facts head={head} range={range} onShut={toggleFacts} />
            </Panel>
          </>
        )}
      </PanelGroup>
    </div>
  );
}

/** Whether a pane is shut: as it was left, and at first where there is no room for it. */
function usePane(name: string): [boolean, () => void] {
  const [stored, setStored] = useStored(name);
  const isShut = stored === null ? matchMedia("(max-width: 900px)").matches : stored === "yes";
  return [isShut, () => setStored(isShut ? "no" : "yes")];
}

/** So many pixels in percent of the window; at most a fifth, so that most is left for what was said. */
function shareOf(pixels: number): number {
  return Math.min(21, (pixels / window.innerWidth) * 100);
}

interface TabsProps {
  tab: Tab;
  head: TrajectoryHead;
  outlineShut: boolean;
  factsShut: boolean;
  onOutline: () => void;
  onFacts: () => void;
}

function Tabs({ tab, head, outlineShut, factsShut, onOutline, onFacts }: TabsProps) {
  const t = useText();
  const faded: Partial<Record<Tab, boolean>> = { tokens: !head.has_tokens, transitions: !head.has_transitions };
  const step = (by: number) => {
    const next = TABS[(TABS.indexOf(tab) + by + TABS.length) % TABS.length]!;
    setQuery({ tab: next === "conversation" ? null : next });
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <div className="tabs-bar">
      {outlineShut && (
        <button
          type="button"
          className="button bare icon small"
          aria-label={t.trajectory.showOutline}
          title={t.trajectory.showOutline}
          onClick={onOutline}
        >
          »
        </button>
      )}
      <div
        className="tabs"
        role="tablist"
        onKeyDown={(event) => {
          if (event.key === "ArrowRight") step(1);
          if (event.key === "ArrowLeft") step(-1);
        }}
      >
        {TABS.map((each) => (
          <Link
            key={each}
            id={`tab-${each}`}
            href={hrefWith({ tab: each === "conversation" ? null : each })}
            role="tab"
            aria-selected={each === tab}
            aria-controls="tab-panel"
            tabIndex={each === tab ? 0 : -1}
            className={faded[each] ? "faded" : undefined}
          >
            {t.trajectory.tabs[each]}
          </Link>
        ))}
      </div>
      <ShareLink query={{ ids: head.row.trajectory_id }} />
      {factsShut && (
        <button
          type="button"
          className="button bare icon small"
          aria-label={t.trajectory.showFacts}
          title={t.trajectory.showFacts}
          onClick={onFacts}
        >
          «
        </button>
      )}
    </div>
  );
}
