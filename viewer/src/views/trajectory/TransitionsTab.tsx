import { useAnswer } from "../../api/hooks";
import { numberOf } from "../../api/number";
import type { TrajectoryHead, Transition } from "../../api/types.gen";
import { type EarlierValue, earlierValues } from "../../model/earlier";
import { measure } from "../../model/format";
import { isFlat, preview } from "../../model/json";
import { type SeenMessage, seenIn } from "../../model/seen";
import { useText } from "../../text";
import { JsonTree } from "../../ui/JsonTree";
import { VirtualFlow } from "../../ui/VirtualFlow";
import { ProblemPanel } from "../parts/Problem";
import { Earlier } from "./Earlier";
import { Bars } from "./Scores";

const EXAMPLE = `trajectory.transition(
    rolltrace.RolloutTrace(
        prompt=prompt, policy_response=action, env_state=state
    ),
    reward=reward,
    episode_done=done,
)`;

/** Fields that stand in the head of a card. */
const IN_HEAD = ["reward", "episode_done", "stop_reason"] as const;

/** One card an environment step: what was seen, done and got, and what changed. */
export default function TransitionsTab({ head }: { head: TrajectoryHead }) {
  const t = useText();
  const answer = useAnswer("/api/trajectory/{trajectory_id}/transitions", {
    path: { trajectory_id: head.row.trajectory_id },
    enabled: head.has_transitions,
  });
  const rows = answer.data?.transitions ?? [];
  if (!head.has_transitions)
    return (
      <div className="empty">
        <h1>{t.empty.noTransitions}</h1>
        <p>{t.empty.noTransitionsText}</p>
        <pre>{EXAMPLE}</pre>
      </div>
    );
  if (answer.error && !answer.data)
    return <ProblemPanel problem={answer.error} onRetry={() => void answer.refetch()} />;
  return (
    <VirtualFlow
      count={rows.length}
      estimate={220}
      label={t.trajectory.tabs.transitions}
      itemKey={(index) => `${head.row.trajectory_id} ${index}`}
      render={(index) => <Card step={rows[index]!} before={rows[index - 1]} />}
    />
  );
}

function Card({ step, before }: { step: Transition; before: Transition | undefined }) {
  const t = useText();
  const w = t.transitions;
  const reward = numberOf(step.reward);
  const data = step.reward_data as unknown;
  const earlier = earlierValues(step);
  const fields = Object.entries(step.fields as Record<string, unknown>).filter(
    ([name]) => !IN_HEAD.some((each) => each === name),
  );
  const removed = [...earlier.keys()].filter(
    (name) => !IN_HEAD.some((each) => each === name) && !fields.some(([field]) => field === name),
  );
  return (
    <article className="transition" aria-label={w.step(step.index)}>
      <header className="message-head">
        <b className="role">{w.step(step.index)}</b>
        {reward !== null && <span className="mono">{`${w.reward} ${measure(reward)}`}</span>}
        {step.episode_done && <span className="chip blue">{w.done}</span>}
        {step.stop_reason && <bdi className="dim">{w.stop(step.stop_reason)}</bdi>}
        {step.amends && <span className="chip">{w.amendsNothing(step.turn)}</span>}
        {step.backfill && <span className="chip quiet">{w.backfill}</span>}
      </header>
      <div className="earlier-head">
        {IN_HEAD.map((name) => (
          <Earlier key={name} name={w.inHead[name]} values={earlier.get(name)} />
        ))}
      </div>
      <div className="transition-body">
        <Prompt value={step.prompt} before={before?.prompt} />
        <Value name={w.response} value={step.policy_response} />
        {isObject(data) && (
          <section>
            <h3 className="label">{w.rewardData}</h3>
            <Bars values={data} />
          </section>
        )}
        {step.env_state !== null && (
          <section>
            <h3 className="label">
              {w.state}
              {step.index === 0 ? "" : ` · ${step.changes.length ? w.changes(step.changes.length) : w.unchanged}`}
            </h3>
            {step.changes.map((change) => (
              <div key={change.path} className="mono change traced">
                <span className="j-key">{change.path}</span> <del>{preview(change.before)}</del>{" "}
                <span aria-hidden>→</span> <ins>{preview(change.after)}</ins>
              </div>
            ))}
            <details open={step.index === 0}>
              <summary className="dim">{w.whole}</summary>
              <JsonTree value={step.env_state} words={t.ops} label={w.state} />
            </details>
          </section>
        )}
        {isObject(step.extra) && <Value name={w.extra} value={step.extra} />}
        {fields.map(([name, value]) => (
          <Value key={name} name={name} value={value} earlier={earlier.get(name)} />
        ))}
        {removed.map((name) => (
          <section key={name}>
            <h3 className="label">{name}</h3>
            <Earlier values={earlier.get(name)} />
          </section>
        ))}
      </div>
    </article>
  );
}

function Prompt({ value, before }: { value: unknown; before: unknown }) {
  const w = useText().transitions;
  const seen = seenIn(value, before);
  if (seen === null) return <Value name={w.prompt} value={value} />;
  return (
    <section>
      <h3 className="label">{w.prompt}</h3>
      {seen.known > 0 && (
        <details>
          <summary className="dim">{w.earlierMessages(seen.known)}</summary>
          <SeenLines messages={seen.messages.slice(0, seen.known)} />
        </details>
      )}
      <SeenLines messages={seen.messages.slice(seen.known)} />
    </section>
  );
}

function SeenLines({ messages }: { messages: readonly SeenMessage[] }) {
  return messages.map(({ role, text }, index) => (
    <div key={index} className="seen-line">
      <bdi className="dim cut">{role}</bdi>
      <span className="traced">{text}</span>
    </div>
  ));
}

function Value({ name, value, earlier }: { name: string; value: unknown; earlier?: readonly EarlierValue[] }) {
  if (value === null || value === undefined) return null;
  return (
    <section>
      <h3 className="label">{name}</h3>
      {typeof value === "string" ? <div className="traced">{value}</div> : <FlatOrTree name={name} value={value} />}
      <Earlier values={earlier} />
    </section>
  );
}

/** An object of a few plain values needs no tree. */
function FlatOrTree({ name, value }: { name: string; value: unknown }) {
  const t = useText();
  if (!isObject(value) || !isFlat(value)) return <JsonTree value={value} words={t.ops} label={name} open={1} />;
  return Object.entries(value).map(([key, item]) => (
    <div key={key} className="mono traced">
      <span className="j-key">{key}:</span> {preview(item)}
    </div>
  ));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
}
