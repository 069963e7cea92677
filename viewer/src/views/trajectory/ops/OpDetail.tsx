import { ask, hrefOf } from "../../../api/client";
import { useAnswer } from "../../../api/hooks";
import { numberOf } from "../../../api/number";
import { IS_FILE } from "../../../api/source";
import { bytes, clock, measure, seconds } from "../../../model/format";
import type { Path } from "../../../model/json";
import { fromRoot } from "../../../root";
import { useText } from "../../../text";
import { JsonTree } from "../../../ui/JsonTree";
import { FlagChips } from "../../parts/Flags";
import { ProblemPanel } from "../../parts/Problem";

/** What an op was given and what it gave, as trees that unfold. */
export function OpDetail({ trajectoryId, opId }: { trajectoryId: string; opId: string }) {
  const t = useText();
  const path = { trajectory_id: trajectoryId, op_id: opId };
  const answer = useAnswer("/api/trajectory/{trajectory_id}/op/{op_id}", { path, keep: false });
  if (answer.error) return <ProblemPanel problem={answer.error} onRetry={() => void answer.refetch()} />;
  if (!answer.data) return null;
  const { op, inputs, outputs, traceback, worker, thread, start_ns } = answer.data;
  const readMore = (part: "inputs" | "outputs") => async (at: Path, offset: number) =>
    (await ask("/api/trajectory/{trajectory_id}/op/{op_id}/branch", path, { part, path: JSON.stringify(at), offset }))
      .value;
  const logprob = numberOf(op.logprob_mean);
  const facts = [
    op.kind,
    seconds(op.duration_s),
    clock(start_ns),
    op.response_tokens === null ? null : t.trajectory.tokensUnit(op.response_tokens),
    logprob === null ? null : t.trajectory.logprob(measure(logprob)),
    op.policy_version === null ? null : t.trajectory.policy(op.policy_version),
    op.finish_reason === null ? null : t.trajectory.finish(op.finish_reason),
    bytes(op.payload_bytes),
    worker,
    thread,
  ];
  return (
    <div className="op-detail">
      <header className="op-detail-head">
        <span className="kind" style={{ background: `var(--${op.kind})` }} />
        <b>
          <bdi>{op.name}</bdi>
        </b>
        <FlagChips flags={op.flags} />
        <span className="mono dim cut">{facts.filter(Boolean).join(" · ")}</span>
        <span className="grow" />
        {!IS_FILE && (
          <a
            className="button small bare"
            href={fromRoot(hrefOf("/api/trajectory/{trajectory_id}/op/{op_id}/raw", path, undefined))}
            download
          >
            {t.trajectory.download}
          </a>
        )}
      </header>
      {op.error && <pre className="op-error traced">{op.error}</pre>}
      {traceback && (
        <details className="op-trace">
          <summary className="dim">{t.facts.traceback}</summary>
          <pre className="codeblock traced">{traceback}</pre>
        </details>
      )}
      <div className="op-payload">
        {(["inputs", "outputs"] as const).map((part) => (
          <section key={part} aria-label={t.ops[part]}>
            <h2 className="label">{t.ops[part]}</h2>
            <JsonTree
              value={part === "inputs" ? inputs : outputs}
              words={t.ops}
              label={t.ops[part]}
              readMore={readMore(part)}
            />
          </section>
        ))}
      </div>
    </div>
  );
}
