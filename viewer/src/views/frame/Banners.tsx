import type { ServerProblem } from "../../api/client";
import type { Status } from "../../api/types.gen";
import { useText } from "../../text";
import { store, useStored } from "../../ui/stored";
import { Banner } from "../parts/Banner";

/** Only what needs one: the server or the store gone, files that cannot be read, records that were lost. */
export function Banners({ status, problem }: { status: Status | undefined; problem: ServerProblem | null }) {
  const t = useText();
  const [dismissed] = useStored("dismissed");
  const lostSign = status ? `${status.store_path} ${status.lost}` : "";
  return (
    <>
      {problem?.unreachable && (
        <Banner tone="bad">
          {t.banner.unreachable} {t.banner.restart} <code>rolltrace view</code>
        </Banner>
      )}
      {problem && !problem.unreachable && (
        <Banner tone="bad">
          {t.banner.gone} <bdi>{problem.problem.detail}</bdi> {problem.problem.hint}
        </Banner>
      )}
      {status && status.incomplete.length > 0 && (
        <Banner tone="warn" details={status.incomplete.map((each) => `${each.file}: ${each.reason}`)}>
          {t.banner.damaged(status.incomplete.length)}
        </Banner>
      )}
      {status && status.lost > 0 && dismissed !== lostSign && (
        <Banner tone="bad" onDismiss={() => store("dismissed", lostSign)}>
          {t.banner.lost(status.lost)}
        </Banner>
      )}
    </>
  );
}
