import type { ReactNode } from "react";
import { numberOf } from "../../api/number";
import type { Finding, Score, TrajectoryHead } from "../../api/types.gen";
import { clock, count, MISSING, measure, seconds } from "../../model/format";
import { trajectoryPath } from "../../model/route";
import type { Range } from "../../model/scale";
import { useText } from "../../text";
import { CopyButton } from "../../ui/CopyButton";
import { Link } from "../../ui/Link";
import { hrefWith } from "../../ui/url";
import { FlagChip } from "../parts/Flags";
import { RewardSquare } from "../parts/Reward";
import { ScoreView, Terms } from "./Scores";

/** Everything about a trajectory that is not what was said. */
export function Facts({ head, range, onShut }: { head: TrajectoryHead; range: Range | null; onShut: () => void }) {
  const t = useText();
  const f = t.facts;
  const { row } = head;
  const reward = head.scores.find((score) => score.name === "reward");
  const others = head.scores.filter((score) => !["reward", "advantage", "fate"].includes(score.name));
  return (
    <aside className="facts" aria-label={t.trajectory.facts}>
      <div className="pane-head">
        <span className="label">{f.reward}</span>
        <span className="grow" />
        <button
          type="button"
          className="button bare icon small"
          aria-label={t.trajectory.hide}
          title={t.trajectory.hide}
          onClick={onShut}
        >
          »
        </button>
      </div>
      <div className="pane-scroll facts-body">
        <div className="big mono reward-big">
          {row.reward === null ? <span className="dim">{f.noReward}</span> : measure(numberOf(row.reward))}
          <RewardSquare cell={{ reward: row.reward, status: "ok" }} range={range} small />
        </div>
        {reward && <Terms score={reward} />}
        {row.advantage !== null && <Fact name={f.advantage}>{measure(numberOf(row.advantage))}</Fact>}
        {row.fate !== null && (
          <Fact name={f.fate}>
            <bdi title={row.fate_reason ?? ""}>{row.fate}</bdi>
          </Fact>
        )}
        {row.fate_reason && <div className="dim traced reason">{row.fate_reason}</div>}
        {reward && reward.history.length > 1 && <History score={reward} />}
        {others.length > 0 && (
          <Section title={f.scores}>
            {others.map((score) => (
              <ScoreView key={score.name} score={score} />
            ))}
          </Section>
        )}
        {(row.error || row.status !== "ok") && (
          <Section title={row.status === "running" ? f.status : f.error}>
            <div className={`status-word ${row.status}`}>{t.status[row.status] ?? row.status}</div>
            {row.error && <div className="err traced mono">{row.error}</div>}
            {head.traceback && (
              <details>
                <summary className="dim">{f.traceback}</summary>
                <pre className="codeblock traced">{head.traceback}</pre>
              </details>
            )}
          </Section>
        )}
        {head.findings.length > 0 && (
          <Section title={f.flags}>
            {head.findings.map((finding, index) => (
              <FindingLine key={index} finding={finding} />
            ))}
          </Section>
        )}
        <Section title={f.where}>
          <Fact name={f.run}>
            <bdi title={row.run ?? ""}>{f.of(head.run.index, head.run.count)}</bdi>
          </Fact>
          {row.policy_version_max !== null && (
            <Fact name={f.policy}>{versions(row.policy_version_min, row.policy_version_max)}</Fact>
          )}
          {row.staleness !== null && <Fact name={f.staleness}>{count(row.staleness)}</Fact>}
          <Fact name={f.worker}>
            <bdi title={row.worker}>{row.worker}</bdi>
          </Fact>
          <Fact name={f.began}>{clock(row.start_ns)}</Fact>
          <Fact name={f.took}>{row.duration_s === null ? MISSING : seconds(row.duration_s)}</Fact>
          {row.response_tokens !== null && (
            <Fact name={f.tokens}>{`${count(row.prompt_tokens)} + ${count(row.response_tokens)}`}</Fact>
          )}
          <Fact name={f.id}>
            <CopyButton
              text={row.trajectory_id}
              label={row.trajectory_id.slice(0, 12)}
              done={t.copy.copied}
              className="button small bare mono tight"
            />
          </Fact>
          {head.parent_trajectory_id && (
            <Fact name={f.parent}>
              <Link href={trajectoryPath(head.parent_trajectory_id)}>{head.parent_trajectory_id.slice(0, 8)}</Link>
            </Fact>
          )}
          {head.children.length > 0 && (
            <Fact name={f.children}>
              {head.children.slice(0, 6).map((child) => (
                <Link key={child} className="child" href={trajectoryPath(child)}>
                  {child.slice(0, 8)}
                </Link>
              ))}
            </Fact>
          )}
        </Section>
        <Tags tags={row.tags as Record<string, unknown>} title={f.tags} />
        {head.notes.length > 0 && (
          <Section title={f.notes}>
            {head.notes.map((note, index) => (
              <div key={index} className="traced note">
                <span className="dim">{note.event}</span>{" "}
                {typeof note.body === "string" ? note.body : JSON.stringify(note.body)}
              </div>
            ))}
          </Section>
        )}
      </div>
    </aside>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h2 className="label">{title}</h2>
      {children}
    </section>
  );
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="fact">
      <span className="dim">{name}</span>
      <span className="mono cut">{children}</span>
    </div>
  );
}

function FindingLine({ finding }: { finding: Finding }) {
  const t = useText();
  const place = t.facts.at(finding.turn, finding.token);
  const href =
    finding.token !== null
      ? hrefWith({ tab: "tokens" }, { op: finding.op_id, tok: String(finding.token) })
      : hrefWith({}, { op: finding.op_id });
  return (
    <div className="finding" title={finding.meaning}>
      {finding.op_id ? (
        <Link href={href}>
          <FlagChip flag={finding.flag} /> <span>{place}</span>
        </Link>
      ) : (
        <FlagChip flag={finding.flag} />
      )}
    </div>
  );
}

function History({ score }: { score: Score }) {
  const t = useText();
  return (
    <details className="history">
      <summary className="dim">{t.facts.history(score.history.length)}</summary>
      {[...score.history].reverse().map((value, index) => (
        <div key={index} className="fact">
          <span className="dim mono">{clock(value.time_ns)}</span>
          <span className="mono cut">{value.label ?? measure(numberOf(value.value))}</span>
        </div>
      ))}
    </details>
  );
}

function Tags({ tags, title }: { tags: Record<string, unknown>; title: string }) {
  const entries = Object.entries(tags);
  if (entries.length === 0) return null;
  return (
    <Section title={title}>
      <div className="chips wrap">
        {entries.map(([name, value]) => {
          const text = `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`;
          return (
            <span key={name} className="chip quiet" title={text}>
              <span>
                <bdi>{text}</bdi>
              </span>
            </span>
          );
        })}
      </div>
    </Section>
  );
}

function versions(low: number | null, high: number): string {
  return low === null || low === high ? String(high) : `${low} → ${high}`;
}
