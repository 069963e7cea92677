import { numberOf, type WireNumber } from "../../api/number";
import type { Score } from "../../api/types.gen";
import { barLengths } from "../../model/bars";
import { clock, measure } from "../../model/format";
import { useText } from "../../text";

/** The parts that a reward is made of, each with a bar. */
export function Terms({ score }: { score: Score }) {
  return <Bars values={score.newest.terms as Record<string, unknown>} />;
}

export function Bars({ values }: { values: Record<string, unknown> }) {
  const numbers = Object.entries(values).map(([name, value]) => [name, termOf(value)] as const);
  const lengths = barLengths(numbers.map(([, value]) => value));
  return (
    <>
      {numbers.map(([name, value], index) => (
        <div key={name}>
          <div className="fact">
            <bdi className="dim cut" title={name}>
              {name}
            </bdi>
            <span className="mono cut">{typeof value === "number" ? measure(value) : value}</span>
          </div>
          {typeof value === "number" && (
            <div className="meter">
              <i className={value < 0 ? "below" : undefined} style={{ width: `${lengths[index]! * 100}%` }} />
            </div>
          )}
        </div>
      ))}
    </>
  );
}

function termOf(value: unknown): number | string {
  if (typeof value === "number") return value;
  if (value === "nan" || value === "inf" || value === "-inf") return numberOf(value as WireNumber);
  if (typeof value === "object" && value !== null && "$float" in value)
    return numberOf(String(value.$float) as WireNumber) ?? "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Any other score: its newest value, why, and what was said before. */
export function ScoreView({ score }: { score: Score }) {
  const t = useText();
  const { newest, history } = score;
  const older = history.slice(0, -1).reverse();
  return (
    <div className="score">
      <div className="fact">
        <bdi className="dim cut" title={score.name}>
          {score.name}
        </bdi>
        <span className="mono cut" title={newest.label ?? undefined}>
          {newest.label ?? measure(numberOf(newest.value))}
        </span>
      </div>
      {newest.reason && <div className="dim traced reason">{newest.reason}</div>}
      {older.length > 0 && (
        <details className="history">
          <summary className="dim">{t.facts.history(history.length)}</summary>
          {older.map((value, index) => (
            <div key={index} className="fact">
              <span className="dim mono">{clock(value.time_ns)}</span>
              <span className="mono cut">{value.label ?? measure(numberOf(value.value))}</span>
            </div>
          ))}
        </details>
      )}
    </div>
  );
}
