import type { GroupRecord } from "../../api/types.gen";
import { clock, seconds } from "../../model/format";
import { trajectoryPath } from "../../model/route";
import { useText } from "../../text";
import { Link } from "../../ui/Link";

/** Where a record is looked at: it has ops, and mostly no conversation. */
export function recordPath(record: GroupRecord): string {
  return `${trajectoryPath(record.trajectory_id)}?tab=ops`;
}

/** What was recorded for a group as a whole, one line each. */
export function GroupRecords({ records }: { records: readonly GroupRecord[] }) {
  const t = useText();
  if (records.length === 0) return null;
  return (
    <section className="group-records" aria-label={t.records.title(records.length)}>
      <h2 className="label">{t.records.title(records.length)}</h2>
      <ul>
        {records.map((record) => (
          <li key={record.trajectory_id}>
            <Link className="group-record" href={recordPath(record)}>
              <b className="cut">
                <bdi>{record.name}</bdi>
              </b>
              {record.status !== "ok" && (
                <span className={`status-word ${record.status}`}>{t.status[record.status] ?? record.status}</span>
              )}
              <span className="dim mono">{t.ops.ops(record.ops)}</span>
              {record.errors > 0 && <span className="err mono">{t.records.errors(record.errors)}</span>}
              <span className="dim mono">{seconds(record.duration_s)}</span>
              <span className="dim mono">{clock(record.start_ns)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The same in a row of a table: one chip for all of them. */
export function GroupRecordsChip({ records, href }: { records: readonly GroupRecord[] | undefined; href: string }) {
  const t = useText();
  if (!records) return null;
  return (
    <Link
      className="chip blue"
      href={records.length === 1 ? recordPath(records[0]!) : href}
      title={`${t.records.title(records.length)}: ${records.map((each) => each.name).join(", ")}`}
    >
      <span>{t.records.chip(records.length)}</span>
    </Link>
  );
}
