import type { TrajectoryHead } from "../../api/types.gen";
import { clock, count, MISSING, seconds } from "../../model/format";
import { trajectoryPath } from "../../model/route";
import { useText } from "../../text";
import { CopyButton } from "../../ui/CopyButton";
import { Link } from "../../ui/Link";
import { Fact, Section } from "./factParts";

/** Which run, weights and worker a trajectory is of, when it was and how long it took. */
export function Where({ head }: { head: TrajectoryHead }) {
  const t = useText();
  const f = t.facts;
  const { row } = head;
  return (
    <Section title={f.where}>
      <Fact name={f.run}>
        <bdi title={row.run ?? ""}>{f.of(head.run.index, head.run.count)}</bdi>
      </Fact>
      {row.policy_version_max !== null && (
        <Fact name={f.policy}>{versions(row.policy_version_min, row.policy_version_max)}</Fact>
      )}
      {row.staleness !== null && <Fact name={f.staleness}>{count(row.staleness)}</Fact>}
      <Fact name={f.worker}>
        <bdi title={row.worker}>{row.worker}</bdi>
      </Fact>
      <Fact name={f.began}>{clock(row.start_ns)}</Fact>
      <Fact name={f.took}>{row.duration_s === null ? MISSING : seconds(row.duration_s)}</Fact>
      {row.response_tokens !== null && (
        <Fact name={f.tokens}>{`${count(row.prompt_tokens)} + ${count(row.response_tokens)}`}</Fact>
      )}
      <Fact name={f.id}>
        <CopyButton
          text={row.trajectory_id}
          label={row.trajectory_id.slice(0, 12)}
          done={t.copy.copied}
          className="button small bare mono tight"
        />
      </Fact>
      {head.parent_trajectory_id && (
        <Fact name={f.parent}>
          <Link href={trajectoryPath(head.parent_trajectory_id)}>{head.parent_trajectory_id.slice(0, 8)}</Link>
        </Fact>
      )}
      {head.children.length > 0 && (
        <Fact name={f.children}>
          {head.children.slice(0, 6).map((child) => (
            <Link key={child} className="child" href={trajectoryPath(child)}>
              {child.slice(0, 8)}
            </Link>
          ))}
        </Fact>
      )}
    </Section>
  );
}

function versions(low: number | null, high: number): string {
  return low === null || low === high ? String(high) : `${low} → ${high}`;
}
