import { useRef } from "react";
import { useLive } from "../../api/events";
import { useAnswer } from "../../api/hooks";
import type { Live } from "../../api/types.gen";
import { MISSING, percent, seconds, short } from "../../model/format";
import { merged, type ShownRow } from "../../model/live";
import { neighbour } from "../../model/order";
import { trajectoryPath } from "../../model/route";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { navigate, setAnchor, useUrl } from "../../ui/url";
import "../experiments/experiments.css";
import "../experiment/experiment.css";
import { CopyAs } from "../parts/CopyAs";
import "./live.css";
import { LiveLine } from "./LiveLine";

const HEADS = [
  ["age", true],
  ["where", false],
  ["op", false],
  ["since", true],
  ["usual", true],
  ["turns", true],
  ["tokens", true],
  ["worker", false],
] as const;

/** A drainer that has not looked for so long is at a standstill, or gone. */
const STALE_SEC = 10;
const RUNNING = { where: "status = 'running'", order: "start_ns" };

/** In flight, the oldest first: so that hung and slow are told apart. */
export default function LivePage() {
  const t = useText();
  const { live: pushed, connected } = useLive();
  const first = useAnswer("/api/live");
  const live = pushed ?? first.data ?? null;
  const shown = useRef<{ live: Live | null; rows: ShownRow[] }>({ live: null, rows: [] });
  if (live && shown.current.live !== live)
    shown.current = { live, rows: merged(shown.current.rows, live.rows, performance.now()) };
  const rows = shown.current.rows;
  const at = useUrl().anchor.get("at");
  const move = (by: number) => {
    const next = neighbour(rows, (each) => each.row.trajectory_id === at, by);
    if (next) setAnchor({ at: next.row.trajectory_id });
  };
  useKeys([
    { keys: "j", label: t.keys.next, run: () => move(1) },
    { keys: "k", label: t.keys.previous, run: () => move(-1) },
    { keys: "Enter", label: t.keys.open, run: () => at && navigate(trajectoryPath(at)) },
  ]);
  if (!live) return <div className="pane-note dim late">{t.live.waiting}</div>;
  return (
    <div className="live">
      <h1 className="sr">{t.live.title}</h1>
      <dl className="figures">
        <Figure label={t.live.running} value={short(live.rows.length)} />
        <Figure label={t.live.perMinute} value={short(live.trajectories_per_min)} />
        <Figure label={t.live.tokensPerMinute} value={short(live.tokens_per_min)} />
        <Figure
          label={t.live.toolErrors}
          value={live.tool_error_rate === null ? MISSING : percent(live.tool_error_rate)}
        />
      </dl>
      <div className="summary">
        <span className="dim">
          <span className={`dot${connected ? " on pulse" : ""}`} />
          {connected ? t.live.connected : t.live.waiting} · {t.live.rows(live.rows.length)} ·{" "}
          {t.live.window(`${Math.round(live.window_s)} s`)}
          {(live.snapshot_age_s ?? 0) > STALE_SEC && ` · ${t.live.asOf(seconds(live.snapshot_age_s!))}`}
        </span>
        <span className="grow" />
        <CopyAs listing="trajectories" scope={RUNNING} />
      </div>
      {rows.length === 0 ? (
        <div className="empty">
          <h1>{t.empty.liveTitle}</h1>
          <p>{t.empty.liveText}</p>
          <pre>rolltrace demo --slow</pre>
        </div>
      ) : (
        <div className="table-scroll">
          <table className="lines live-rows">
            <thead>
              <tr>
                {HEADS.map(([word, numeric]) => (
                  <th key={word} className={numeric ? "head num" : "head"}>
                    {t.live[word]}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ row, endedAt }) => (
                <LiveLine key={row.trajectory_id} row={row} ended={endedAt !== null} here={row.trajectory_id === at} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {live.workers.length > 0 && <Workers live={live} />}
    </div>
  );
}

function Figure({ label, value }: { label: string; value: string }) {
  return (
    <div className="figure">
      <dt className="label">{label}</dt>
      <dd className="big mono">{value}</dd>
    </div>
  );
}

function Workers({ live }: { live: Live }) {
  const t = useText();
  return (
    <table className="lines workers">
      <thead>
        <tr>
          <th>{t.live.workers}</th>
          <th className="head num">{t.live.running}</th>
          <th className="head num">{t.live.finished}</th>
          <th className="head num">{t.live.tokens}</th>
          <th className="head num">{t.live.toolErrors}</th>
        </tr>
      </thead>
      <tbody>
        {live.workers.map((worker) => (
          <tr key={worker.worker}>
            <td className="mono">
              <bdi>{worker.worker}</bdi>
            </td>
            <td className="num">{worker.running}</td>
            <td className="num">{worker.finished}</td>
            <td className="num">{short(worker.tokens)}</td>
            <td className={`num${worker.tool_errors ? " err" : ""}`}>
              {worker.tool_errors}/{worker.tool_calls}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
