/** The pieces of the facts about a trajectory. */
import type { ReactNode } from "react";
import { numberOf } from "../../api/number";
import type { Finding, Score } from "../../api/types.gen";
import { clock, measure } from "../../model/format";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { hrefWith } from "../../ui/url";
import { FlagChip } from "../parts/Flags";

export function Section({ title, children }: { title: string; children: ReactNode }) {
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

export function FindingLine({ finding }: { finding: Finding }) {
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

export function History({ score }: { score: Score }) {
  const t = useText();
  return (
    <details className="history">
      <summary className="dim">{t.facts.history(score.history.length)}</summary>
      {[...score.history].reverse().map((value, index) => (
        <div key={index} className="fact">
          <span className="dim mono">{clock(value.time_ns)}</span>
          <span className="mono cut">
            {value.label ?? measure(numberOf(value.value))}
            {value.trained_step !== null && ` · ${t.trajectory.stepShort(value.trained_step)}`}
          </span>
        </div>
      ))}
    </details>
  );
}

export function Tags({ tags, title }: { tags: Record<string, unknown>; title: string }) {
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
