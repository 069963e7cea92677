import { numberOf, type WireNumber } from "../../api/number";
import type { Comparison, Differing } from "../../api/types.gen";
import { clock, MISSING, measure, nanoseconds, seconds } from "../../model/format";
import { preview } from "../../model/json";
import { useText } from "../../text";
import { nameOf } from "./ColumnHead";

/** Attributes and scores that are not the same in all columns. */
export function DiffersTable({ data }: { data: Comparison }) {
  const t = useText();
  const rows = data.columns.map((column) => column.row);
  const lines = [...data.scores, ...data.attributes].filter((line) => line.name !== "rollout_n"); // heads the columns
  if (lines.length === 0) return <p className="dim pane-note">{t.compare.nothing}</p>;
  return (
    <table className="lines differs">
      <thead>
        <tr>
          <th>{t.compare.differs}</th>
          {rows.map((row) => (
            <th key={row.trajectory_id} className="num">
              <bdi>{nameOf(row, rows, t)}</bdi>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {lines.map((line, index) => (
          <tr key={`${index} ${line.name}`}>
            <td>
              <bdi>{t.columns[line.name] ?? line.name}</bdi>
            </td>
            {line.values.map((value, column) => (
              <td key={column} className="num" title={typeof value === "string" ? value : undefined}>
                <bdi>{shown(line, value)}</bdi>
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function shown(line: Differing, value: unknown): string {
  if (value === null || value === undefined) return MISSING;
  if (value === "nan" || value === "inf" || value === "-inf") return measure(numberOf(value as WireNumber));
  if (typeof value === "number") {
    if (line.name.endsWith("_ns")) return value > 1e15 ? clock(value) : nanoseconds(value);
    if (line.name.endsWith("_s")) return seconds(value);
    return Number.isInteger(value) ? value.toLocaleString("en-US") : measure(value);
  }
  if (typeof value === "string") return value;
  return preview(value, 60);
}
