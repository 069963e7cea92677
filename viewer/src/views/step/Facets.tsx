import { useState } from "react";
import { useAnswer } from "../../api/hooks";
import type { Facet, Histogram } from "../../api/types.gen";
import { count, measure, seconds, short } from "../../model/format";
import { passCaption } from "../../model/passing";
import { type Range, share, viridis } from "../../model/scale";
import { queryOf, type Scope } from "../../model/scope";
import { hasCondition, rangeOf, toggled, withRange } from "../../model/where";
import { useText } from "../../text";
import { HistogramBrush } from "../../ui/HistogramBrush";
import { setQuery } from "../../ui/url";

interface Props {
  scope: Scope;
  /** Of rewards: one colour scale for the whole experiment. */
  range: Range | null;
  enabled: boolean;
  every: number | false;
}

const FIRST_SHOWN = 8;
const FORMATS: Record<string, (value: number) => string> = { duration_s: seconds, reward: (value) => measure(value) };

/** What can be narrowed down: a click adds a condition to the filter, another takes it out. */
export function Facets({ scope, range, enabled, every }: Props) {
  const t = useText();
  const answer = useAnswer("/api/facets", { query: queryOf(scope), enabled, every });
  const where = scope.where ?? "";
  const apply = (next: string) => setQuery({ where: next });
  return (
    <aside className="facets" aria-label={t.step.facets}>
      {answer.data?.histograms.map((histogram) => (
        <Brush key={histogram.field} histogram={histogram} range={range} where={where} onApply={apply} />
      ))}
      {answer.data?.facets.map((facet) => (
        <Values
          key={facet.field}
          facet={facet}
          title={facet.field === "passed" ? passCaption(answer.data.passing[0], t.step.fields.passed ?? "") : undefined}
          where={where}
          onApply={apply}
        />
      ))}
      {!answer.data && <div className="skeleton late" style={{ height: 280 }} />}
    </aside>
  );
}

function Brush(props: { histogram: Histogram; range: Range | null; where: string; onApply: (where: string) => void }) {
  const t = useText();
  const { field, edges, counts, missing, not_finite } = props.histogram;
  const name = t.step.fields[field] ?? field;
  const chosen = rangeOf(props.where, field);
  if (counts.length === 0 && not_finite === 0) return null;
  return (
    <section>
      <div className="facet-head">
        <h2 className="label">{name}</h2>
        {chosen && (
          <button
            type="button"
            className="clear"
            aria-label={`${t.step.clearRange}: ${name}`}
            onClick={() => props.onApply(withRange(props.where, field, null))}
          >
            ×
          </button>
        )}
      </div>
      {counts.length > 0 && (
        <HistogramBrush
          bars={{ edges, counts }}
          label={t.step.brush(name)}
          range={chosen}
          format={FORMATS[field] ?? short}
          colour={field === "reward" && props.range ? (value) => viridis(share(value, props.range!)) : undefined}
          whole={field === "turns" || field === "response_tokens"}
          onChange={(next) => props.onApply(withRange(props.where, field, next))}
        />
      )}
      {not_finite > 0 && <div className="facet-note">{t.step.notFinite(not_finite)}</div>}
      {missing > 0 && field === "reward" && <div className="facet-note">{t.step.missing(missing)}</div>}
    </section>
  );
}

function Values(props: { facet: Facet; title?: string; where: string; onApply: (where: string) => void }) {
  const t = useText();
  const [open, setOpen] = useState(false);
  const { field, values, more } = props.facet;
  if (values.length === 0) return null;
  const shown = open ? values : values.slice(0, FIRST_SHOWN);
  const hidden = values.length - shown.length + more;
  return (
    <section>
      <h2 className="label">
        <bdi>{props.title ?? t.step.fields[field] ?? field.replace(/^tag\./, "")}</bdi>
      </h2>
      <ul>
        {shown.map((each) => {
          const on = hasCondition(props.where, each.where);
          return (
            <li key={each.value}>
              <button
                type="button"
                className="facet"
                aria-pressed={on}
                onClick={() => props.onApply(toggled(props.where, each.where))}
              >
                <bdi className="cut" title={each.value}>
                  {wordOf(field, each.value, t)}
                </bdi>
                <span className="mono dim">{count(each.count)}</span>
              </button>
            </li>
          );
        })}
      </ul>
      {hidden > 0 && values.length > FIRST_SHOWN && !open ? (
        <button type="button" className="facet dim" onClick={() => setOpen(true)}>
          {t.step.more(hidden)}
        </button>
      ) : (
        more > 0 && <div className="facet-note">{t.step.more(more)}</div>
      )}
    </section>
  );
}

function wordOf(field: string, value: string, t: ReturnType<typeof useText>): string {
  if (field === "status") return t.status[value] ?? value;
  if (field === "passed") return t.passing.verdicts[value] ?? value;
  if (field === "validate") return t.step.splits[value] ?? value;
  return value;
}
