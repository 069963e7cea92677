import type { ReactNode } from "react";
import { numbersOf } from "../../api/number";
import type { Experiment } from "../../api/types.gen";
import { change, count, MISSING, measure, percent } from "../../model/format";
import { passTitle, ruleOf } from "../../model/passing";
import { changeOver, lastKnown } from "../../model/series";
import { useText } from "../../text";

/** How the run does now, in one strip. */
export function Figures({ data }: { data: Experiment }) {
  const t = useText().experiment;
  const { training } = data;
  const rewards = numbersOf(training.reward_mean);
  const lastIndex = rewards.findLastIndex((value) => value !== null);
  const lastStep = training.step[lastIndex] ?? training.step.at(-1) ?? null;
  const trend = lastStep === null ? null : changeOver(training.step, rewards, lastStep, 10);
  const running = sum(training.running) + sum(data.validation.running);
  const lost = sum(training.lost) + sum(data.validation.lost);
  return (
    <dl className="figures">
      <Figure label={t.step} value={lastStep === null ? MISSING : String(lastStep)} />
      <Figure
        label={t.reward}
        value={measure(rewards[lastIndex] ?? null)}
        note={
          trend === null ? null : <span className={trend > 0 ? "good" : ""}>{`${change(trend)} ${t.inTenSteps}`}</span>
        }
      />
      <Figure
        label={passTitle(data.passing, t.pass)}
        value={percent(lastKnown(training.pass_rate))}
        note={data.passing?.title === "pass" ? ruleOf(data.passing) : null}
      />
      <Figure label={t.zeroVariance} value={percent(lastKnown(training.zero_variance_share))} />
      <Figure label={t.toolErrors} value={percent(lastKnown(training.tool_error_rate))} />
      <Figure label={t.truncated} value={percent(lastKnown(training.truncated_share))} />
      <Figure label={t.trajectories} value={count(sum(training.trajectories) + sum(data.validation.trajectories))} />
      <Figure label={t.running} value={count(running)} />
      <Figure label={t.lost} value={count(lost)} bad={lost > 0} />
    </dl>
  );
}

function Figure({ label, value, note, bad }: { label: string; value: string; note?: ReactNode; bad?: boolean }) {
  return (
    <div className="figure">
      <dt className="label">{label}</dt>
      <dd className={`big mono${bad ? " err" : ""}`}>{value}</dd>
      {note && <dd className="note">{note}</dd>}
    </div>
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
