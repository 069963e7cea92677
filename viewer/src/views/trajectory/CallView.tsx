import { useMemo, useState } from "react";
import type { ToolCall } from "../../api/types.gen";
import { seconds } from "../../model/format";
import { type ResultTable, tableIn } from "../../model/tables";
import { useText } from "../../text";
import { showOp } from "./keys";
import { Json, LongText, PartView } from "./PartView";

/** A tool call and its result as one pair. */
export function CallView({ call, onLoad }: { call: ToolCall; onLoad: () => Promise<unknown> }) {
  const t = useText();
  const results = call.result ?? [];
  const failed = Boolean(call.error) || call.status === "error" || call.status === "interrupted";
  return (
    <div className={`call${failed ? " failed" : ""}`}>
      <div className="call-head mono">
        <div className="traced grow">
          <bdi className="call-name">{call.name}</bdi>
          <span className="dim">(</span>
          <LongText
            part={call.arguments}
            className="call-arguments"
            onLoad={onLoad}
            render={(text) => <Json text={text} />}
          />
          <span className="dim">)</span>
        </div>
        {call.duration_s !== undefined && call.duration_s !== null && (
          <span className="dim call-time">{seconds(call.duration_s)}</span>
        )}
        {call.op_id && (
          <button
            type="button"
            className="call-link"
            aria-label={t.trajectory.openOp}
            title={t.trajectory.openOp}
            onClick={() => showOp(call.op_id!)}
          >
            ↗
          </button>
        )}
      </div>
      <div className="call-result mono">
        {results.map((part, index) =>
          part.kind === "text" || part.kind === "json" ? (
            <LongText
              key={index}
              part={part}
              className="traced"
              onLoad={onLoad}
              render={(text) => <Result text={text} />}
            />
          ) : (
            <PartView key={index} part={part} onLoad={onLoad} />
          ),
        )}
        {call.error && !results.some((part) => saysTheSame(part.text ?? "", call.error!)) && (
          <div className="traced">{call.error}</div>
        )}
        {results.length === 0 && !call.error && (
          <span className="dim">{call.status ? (t.status[call.status] ?? call.status) : t.trajectory.noResult}</span>
        )}
      </div>
    </div>
  );
}

/** What a tool gave: a table, JSON or text; a table also as the JSON that it is. */
function Result({ text }: { text: string }) {
  const t = useText();
  const [asJson, setAsJson] = useState(false);
  const table = useMemo(() => tableIn(text), [text]);
  if (!looksLikeJson(text)) return text;
  if (table === null) return <Json text={text} />;
  return (
    <>
      <button type="button" className="textlink table-switch" onClick={() => setAsJson(!asJson)}>
        {asJson ? t.trajectory.asTable(table.rows.length) : "JSON"}
      </button>
      {asJson ? <Json text={text} /> : <ResultRows table={table} />}
    </>
  );
}

function ResultRows({ table }: { table: ResultTable }) {
  return (
    <table className="result-table">
      <thead>
        <tr>
          {table.columns.map((column) => (
            <th key={column}>
              <bdi>{column}</bdi>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {table.rows.map((row, index) => (
          <tr key={index}>
            {row.map((cell, column) => (
              <td key={column} className="traced">
                {cell}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function looksLikeJson(text: string): boolean {
  return /^\s*[[{]/.test(text);
}

/** Tools often return the error that they raised, with or without the module of its type. */
function saysTheSame(result: string, error: string): boolean {
  const message = error.slice(error.indexOf(": ") + 1).trim();
  return message !== "" && result.includes(message);
}
