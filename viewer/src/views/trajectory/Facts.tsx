import { numberOf } from "../../api/number";
import type { TrajectoryHead } from "../../api/types.gen";
import { change, measure } from "../../model/format";
import { noteText } from "../../model/notes";
import { stepPath } from "../../model/route";
import type { Range } from "../../model/scale";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { Labels } from "../labels/Labels";
import { RewardSquare } from "../parts/Reward";
import { Fact, FindingLine, History, Section, Tags } from "./factParts";
import { ScoreView, Terms } from "./Scores";
import { Where } from "./Where";

/** Everything about a trajectory that is not what was said. */
export function Facts({ head, range, onShut }: { head: TrajectoryHead; range: Range | null; onShut: () => void }) {
  const t = useText();
  const f = t.facts;
  const { row } = head;
  const reward = head.scores.find((score) => score.name === "reward");
  const fate = head.scores.find((score) => score.name === "fate");
  const others = head.scores.filter((score) => !["reward", "advantage", "fate"].includes(score.name));
  return (
    <aside className="facts" aria-label={t.trajectory.facts}>
      <div className="pane-head">
        <span className="label">{head.is_group ? t.records.one : f.reward}</span>
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
        {head.is_group ? (
          <p className="dim">{t.records.of(head.siblings.length)}</p>
        ) : (
          <div className="big mono reward-big">
            {row.reward === null ? <span className="dim">{f.noReward}</span> : measure(numberOf(row.reward))}
            <RewardSquare cell={{ reward: row.reward, status: "ok" }} range={range} small />
          </div>
        )}
        {reward && <Terms score={reward} />}
        {row.advantage !== null && <Fact name={f.advantage}>{measure(numberOf(row.advantage))}</Fact>}
        {row.fate !== null && (
          <Fact name={f.fate}>
            <bdi title={row.fate_reason ?? ""}>{row.fate}</bdi>
          </Fact>
        )}
        {row.fate_reason && <div className="dim traced reason">{row.fate_reason}</div>}
        {row.trained_step !== null && (
          <Fact name={f.trainedIn}>
            <Link
              href={`${stepPath(row.project, row.experiment, row.step)}?view=list&where=${encodeURIComponent(`trained_step = ${row.trained_step}`)}`}
              title={f.trainedTogether}
            >
              {f.trainedStep(row.trained_step, laterBy(row.trained_step, row.step))}
            </Link>
          </Fact>
        )}
        {fate && fate.history.length > 1 && <History score={fate} />}
        {reward && reward.history.length > 1 && <History score={reward} />}
        {!head.is_group && <Labels head={head} />}
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
        <Where head={head} />
        {head.links.length > 0 && (
          <Section title={f.links}>
            {head.links.map((link) => (
              <div key={link.name}>
                <a href={link.url} target="_blank" rel="noopener noreferrer" title={link.url}>
                  <bdi>{link.name}</bdi> ↗
                </a>
              </div>
            ))}
          </Section>
        )}
        <Tags tags={row.tags as Record<string, unknown>} title={f.tags} />
        {head.notes.length > 0 && (
          <Section title={f.notes}>
            {head.notes.map((note, index) => (
              <div key={index} className="traced note">
                {noteText(note)}
              </div>
            ))}
          </Section>
        )}
      </div>
    </aside>
  );
}

/** By how many steps, with its sign; empty for the step itself. */
function laterBy(trained: number, step: number | null): string {
  return step === null || trained === step ? "" : change(trained - step, 0);
}
