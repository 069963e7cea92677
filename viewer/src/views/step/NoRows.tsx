import { experimentPath } from "../../model/route";
import type { Scope } from "../../model/scope";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { setQuery } from "../../ui/url";

/** Nothing to list: because of the filter, or because there is nothing. */
export function NoRows({ scope }: { scope: Scope }) {
  const t = useText();
  if (scope.where)
    return (
      <div className="empty">
        <h1>{t.empty.noMatchTitle}</h1>
        <p>{t.empty.noMatchText}</p>
        <pre className="mono traced">{scope.where}</pre>
        <p />
        <button type="button" className="button" onClick={() => setQuery({ where: null })}>
          {t.empty.clearFilter}
        </button>
      </div>
    );
  return (
    <div className="empty">
      <h1>{t.empty.stepTitle(String(scope.step ?? "–"))}</h1>
      <p>{t.empty.stepText}</p>
      {scope.project !== undefined && scope.experiment !== undefined && (
        <Link className="button" href={experimentPath(scope.project, scope.experiment)}>
          {t.empty.toExperiment}
        </Link>
      )}
    </div>
  );
}
