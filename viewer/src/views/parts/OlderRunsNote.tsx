import type { OlderRuns } from "../../api/types.gen";
import { useText } from "../../text";
import { setQuery } from "../../ui/url";

/** One line that tells of older attempts at the same steps, and shows or hides them. */
export function OlderRunsNote({ older, allRuns }: { older: OlderRuns | undefined; allRuns: boolean }) {
  const t = useText();
  if (!allRuns && !older?.trajectories) return null;
  return (
    <div className="banner note" role="status">
      <span>{allRuns ? t.banner.allShown : t.banner.older(older!.trajectories, older!.runs)}</span>
      <button type="button" className="textlink" onClick={() => setQuery({ runs: allRuns ? null : "all" })}>
        {allRuns ? t.banner.hideOlder : t.banner.showOlder}
      </button>
    </div>
  );
}
