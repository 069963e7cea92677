import { useMemo, useRef, useState } from "react";
import { useAnswer } from "../../api/hooks";
import type { Comparison } from "../../api/types.gen";
import { rangeFrom } from "../../model/cells";
import { comparePath } from "../../model/route";
import { scopeOfIds } from "../../model/scope";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { Segments } from "../../ui/Segments";
import { navigate, setQuery, useUrl } from "../../ui/url";
import { Waiting } from "../../ui/Waiting";
import { CopyAs } from "../parts/CopyAs";
import { ProblemPanel } from "../parts/Problem";
import { ShareLink } from "../parts/ShareLink";
import { ColumnHead } from "./ColumnHead";
import { CompareRow, DIFF_MODES } from "./CompareRow";
import "./compare.css";
import { DiffersTable } from "./DiffersTable";

/** Two to eight trajectories side by side: turns aligned, equal ones folded, the first difference marked. */
export default function ComparePage() {
  const t = useText();
  const { query } = useUrl();
  const ids = useMemo(() => (query.get("ids") ?? "").split(",").filter(Boolean), [query]);
  const answer = useAnswer("/api/compare", { query: { ids: ids.join(",") }, enabled: ids.length >= 2 });
  const row = answer.data?.columns[0]?.row;
  const series = useAnswer("/api/experiment", {
    query: { project: row?.project ?? "", experiment: row?.experiment ?? "" },
    enabled: row !== undefined,
  });
  const body = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState(-1);
  const mode = DIFF_MODES.find((each) => each === query.get("diff")) ?? "words";
  const different = answer.data?.rows.flatMap((each, index) => (each.equal ? [] : [index])) ?? [];
  const move = (by: number) => {
    const next = Math.min(different.length - 1, Math.max(0, at + by));
    setAt(next);
    body.current?.querySelector(`[data-row="${different[next]}"]`)?.scrollIntoView({ block: "start" });
  };
  useKeys([
    { keys: "j", label: t.compare.nextDifference, run: () => move(1) },
    { keys: "k", label: t.compare.previousDifference, run: () => move(-1) },
  ]);
  if (ids.length < 2)
    return (
      <div className="empty">
        <h1>{t.empty.compareTitle}</h1>
        <p>{t.empty.compareText}</p>
        <pre>/compare?ids=3f2a1b2c,9d0e77aa</pre>
      </div>
    );
  if (answer.error && !answer.data)
    return <ProblemPanel problem={answer.error} onRetry={() => void answer.refetch()} />;
  if (!answer.data) return <Waiting columns={ids.map(() => "1fr")} />;
  const data = answer.data;
  const baseline = Math.max(
    0,
    data.columns.findIndex((column) => column.row.trajectory_id === query.get("base")),
  );
  const remove = (id: string) =>
    navigate(comparePath(ids.filter((each) => !id.startsWith(each.replace(/^.*:/, "")))), { replace: true });
  return (
    <div className="compare" ref={body} style={{ "--columns": data.columns.length } as React.CSSProperties}>
      <div className="compare-heads">
        {data.columns.map((column, index) => (
          <ColumnHead
            key={column.row.trajectory_id}
            column={column}
            range={rangeFrom(series.data?.reward_range)}
            isBase={index === baseline}
            many={data.columns.length > 2}
            turnsDiffer={column.turns !== data.columns[baseline]!.turns}
            others={data.columns.map((each) => each.row)}
            onBase={() => setQuery({ base: column.row.trajectory_id }, { replace: true })}
            onRemove={data.columns.length > 2 ? () => remove(column.row.trajectory_id) : undefined}
          />
        ))}
      </div>
      <div className="compare-bar dim">
        <span>{data.identical ? t.compare.identical : <FirstLine data={data} />}</span>
        <span className="grow" />
        <Segments
          label={t.compare.mode}
          value={mode}
          options={[
            { value: "words", label: t.compare.asWords },
            { value: "tokens", label: t.compare.asTokens },
            { value: "plain", label: t.compare.asPlain },
          ]}
          onChange={(next) => setQuery({ diff: next === "words" ? null : next }, { replace: true })}
        />
        <ShareLink query={{ ids: ids.join(",") }} />
        <CopyAs listing="trajectories" scope={scopeOfIds(data.columns.map((column) => column.row.trajectory_id))} />
        <span className="key-pair" aria-hidden>
          <kbd>j</kbd>
          <kbd>k</kbd>
        </span>
      </div>
      {data.rows.map((each, index) => (
        <CompareRow key={index} row={each} index={index} data={data} baseline={baseline} mode={mode} />
      ))}
      <DiffersTable data={data} />
    </div>
  );
}

function FirstLine({ data }: { data: Comparison }) {
  const t = useText();
  const first = data.first_difference;
  if (!first) return null;
  const place = first.unit === "token" ? t.compare.token(first.index) : t.compare.character(first.index);
  const pieces = first.pieces.map((piece, index) =>
    piece === null ? String(first.values[index] ?? "–") : JSON.stringify(piece),
  );
  return (
    <>
      {t.compare.first}: {t.compare.turn(first.turn)}, {place} <bdi className="mono">{pieces.join(" / ")}</bdi>
    </>
  );
}
