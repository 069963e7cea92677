import { hrefOf, type Query } from "../../api/client";
import { IS_FILE } from "../../api/source";
import { useText } from "../../text";

/** Downloads the page as one file with its data. A file itself is shared by sending it. */
export function ShareLink({ query }: { query: Query<"/api/share"> }) {
  const t = useText();
  if (IS_FILE) return null;
  return (
    <a className="button small bare" href={hrefOf("/api/share", undefined, query)} download title={t.share.shareTitle}>
      {t.share.share}
    </a>
  );
}
