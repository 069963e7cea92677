import { useQuery } from "@tanstack/react-query";
import { fetchJson, hrefOf, type ServerProblem } from "../../api/client";
import { IS_FILE } from "../../api/source";
import type { TrajectoryHead } from "../../api/types.gen";
import { fromRoot } from "../../root";
import { useText } from "../../text";
import { CopyButton } from "../../ui/CopyButton";
import { JsonTree } from "../../ui/JsonTree";
import { ProblemPanel } from "../parts/Problem";

/** The record as it is, as JSON. */
export default function RawTab({ head }: { head: TrajectoryHead }) {
  const t = useText();
  const href = hrefOf("/api/trajectory/{trajectory_id}/raw", { trajectory_id: head.row.trajectory_id }, undefined);
  const answer = useQuery<unknown, ServerProblem>({
    queryKey: [href],
    queryFn: ({ signal }) => fetchJson(href, signal),
  });
  if (answer.error) return <ProblemPanel problem={answer.error} onRetry={() => void answer.refetch()} />;
  if (answer.data === undefined) return null;
  return (
    <div className="raw">
      <div className="row raw-bar">
        <span className="dim grow">{t.trajectory.raw}</span>
        <CopyButton text={() => JSON.stringify(answer.data, null, 2)} label={t.copy.copy} done={t.copy.copied} />
        {!IS_FILE && (
          <a className="button small bare" href={fromRoot(href)} download={`${head.row.trajectory_id}.json`}>
            {t.trajectory.download}
          </a>
        )}
      </div>
      <JsonTree value={answer.data} words={t.ops} label={t.trajectory.raw} open={1} />
    </div>
  );
}
