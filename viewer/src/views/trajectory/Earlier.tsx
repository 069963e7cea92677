import type { EarlierValue } from "../../model/earlier";
import { clock } from "../../model/format";
import { preview } from "../../model/json";
import { useText } from "../../text";

/** That a value of an environment step was changed later; opened, what it was and until when. */
export function Earlier({ name, values }: { name?: string; values: readonly EarlierValue[] | undefined }) {
  const w = useText().transitions;
  if (!values) return null;
  return (
    <details className="earlier">
      <summary className="dim">
        {name !== undefined && <bdi>{name}</bdi>} {w.changed(values.length)}
      </summary>
      {values.map(({ value, until_ns }, index) => (
        <div key={index} className="earlier-line">
          <span className="dim">{w.was}</span>{" "}
          {value === null ? (
            <span className="dim">{w.notGiven}</span>
          ) : (
            <del className="mono traced">{preview(value)}</del>
          )}{" "}
          <span className="dim">{w.until(clock(until_ns))}</span>
        </div>
      ))}
    </details>
  );
}
