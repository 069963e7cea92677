import { useState } from "react";
import type { Label, TrajectoryHead } from "../../api/types.gen";
import { clock } from "../../model/format";
import { counting, NOTE, saidBy, shown } from "../../model/labels";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { Link } from "../../ui/Link";
import { Segments } from "../../ui/Segments";
import { hrefWith, useUrl } from "../../ui/url";
import { LabelSetup } from "./LabelSetup";
import "./labels.css";
import { NoteEditor } from "./NoteEditor";
import { useWriting } from "./writing";

/** What people say of a trajectory and its turns, and where to say it: keys 1 to 9, and n for a note. */
export function Labels({ head }: { head: TrajectoryHead }) {
  const t = useText().labels;
  const writing = useWriting();
  const at = useUrl().anchor.get("op");
  const [whole, setWhole] = useState(false);
  const [editing, setEditing] = useState(false);
  const op = head.outline.find((each) => each.op_id === at);
  const opId = whole || !op ? null : op.op_id;
  const ids = [head.row.trajectory_id];
  const mine = (name: string) => saidBy(head.labels, writing.author, opId, name);
  const canWrite = writing.refusal === null && !head.is_group;
  const toggle = (name: string) => canWrite && void writing.write(ids, opId, name, mine(name) ? null : undefined);
  const said = counting(head.labels);
  useKeys(
    !canWrite
      ? []
      : [
          ...writing.names.map((name, index) => ({
            keys: String(index + 1),
            label: t.give(name),
            run: () => toggle(name),
          })),
          { keys: "n", label: t.writeNote, run: () => setEditing(true) },
          { keys: "0", label: t.switchPlace, run: () => setWhole(!whole) },
        ],
  );
  if (!canWrite && head.labels.length === 0) return null;
  return (
    <section className="labels" aria-label={t.title} aria-busy={writing.busy}>
      <div className="labels-head">
        <h2 className="label">{t.title}</h2>
        <span className="grow" />
        {canWrite && op && (
          <Segments
            label={t.place}
            value={opId === null ? "trajectory" : "turn"}
            options={[
              { value: "trajectory", label: t.trajectory },
              { value: "turn", label: t.op(op.turn, op.kind), title: op.name },
            ]}
            onChange={(next) => setWhole(next === "trajectory")}
          />
        )}
      </div>
      {canWrite ? (
        <div className="label-keys">
          {writing.names.map((name, index) => (
            <button
              key={name}
              type="button"
              className="button small label-key"
              aria-pressed={mine(name) !== undefined}
              title={t.give(name)}
              onClick={() => toggle(name)}
            >
              <kbd aria-hidden>{index + 1}</kbd>
              <bdi className="cut">{name}</bdi>
            </button>
          ))}
          <button type="button" className="button small label-key" onClick={() => setEditing(true)}>
            <kbd aria-hidden>n</kbd>
            {t.note}
          </button>
        </div>
      ) : (
        <div className="dim reason">{writing.refusal}</div>
      )}
      {editing && (
        <NoteEditor
          key={opId}
          before={mine(NOTE)?.value ?? ""}
          onSave={async (text) => {
            if (text === "" && !mine(NOTE)) setEditing(false);
            else if (await writing.write(ids, opId, NOTE, text || null)) setEditing(false);
          }}
          onCancel={() => setEditing(false)}
        />
      )}
      {writing.problem && (
        <div className="err reason traced" role="alert">
          {writing.problem.message}
        </div>
      )}
      {said.map((label) => (
        <Said
          key={`${label.name} ${label.author} ${label.op_id}`}
          label={label}
          place={placeOf(head, label, t.op)}
          onRemove={
            canWrite && label.author === writing.author
              ? () => void writing.write(ids, label.op_id, label.name, null)
              : null
          }
        />
      ))}
      {head.labels.length > said.length && <History labels={head.labels} />}
      {canWrite && <LabelSetup writing={writing} />}
    </section>
  );
}

function placeOf(head: TrajectoryHead, label: Label, name: (turn: number | null, kind: string) => string): string {
  const op = head.outline.find((each) => each.op_id === label.op_id);
  return label.op_id === null ? "" : name(op?.turn ?? null, op?.kind ?? "op");
}

function Said({ label, place, onRemove }: { label: Label; place: string; onRemove: (() => void) | null }) {
  const t = useText().labels;
  const isNote = label.name === NOTE;
  return (
    <div className="said">
      <div className="said-head">
        {!isNote && (
          <span className="chip label-chip" title={shown(label)}>
            <bdi>{shown(label)}</bdi>
          </span>
        )}
        <bdi className={`cut${isNote ? "" : " dim"}`} title={label.author}>
          {label.author}
        </bdi>
        <span className="dim mono when">{clock(label.time_ns)}</span>
        {label.op_id !== null && <Link href={hrefWith({}, { op: label.op_id })}>{place}</Link>}
        <span className="grow" />
        {onRemove && (
          <button
            type="button"
            className="button bare icon small"
            aria-label={t.takeBack(label.name)}
            title={t.takeBack(label.name)}
            onClick={onRemove}
          >
            ×
          </button>
        )}
      </div>
      {isNote && <div className="traced note-text">{label.value}</div>}
      {label.reason && <div className="dim traced reason">{label.reason}</div>}
    </div>
  );
}

function History({ labels }: { labels: readonly Label[] }) {
  const t = useText();
  return (
    <details className="history">
      <summary className="dim">{t.labels.history(labels.length)}</summary>
      {[...labels].reverse().map((label, index) => (
        <div key={index} className="fact">
          <span className="dim mono">{clock(label.time_ns)}</span>
          <bdi className="cut" title={label.value ?? ""}>
            {label.value === null ? t.labels.tookBack(label.author, label.name) : `${label.author}: ${shown(label)}`}
          </bdi>
        </div>
      ))}
    </details>
  );
}
