import type { ServerProblem } from "../../api/client";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { isThere } from "../../ui/place";

/** Why there is nothing to show, in the server's words, and what to do next. */
export function ProblemPanel({ problem, onRetry }: { problem: ServerProblem; onRetry?: () => void }) {
  const t = useText();
  return (
    <div className="empty" role="alert">
      <h1>{problem.status === 404 ? t.problem.notFound : t.problem.title}</h1>
      <p className="traced">{problem.problem.detail}</p>
      {problem.problem.hint && <pre className="mono">{problem.problem.hint}</pre>}
      <div className="row">
        {onRetry && (
          <button type="button" className="button" onClick={onRetry}>
            {t.problem.again}
          </button>
        )}
        {isThere("/") && (
          <Link className="button" href="/">
            {t.empty.toExperiments}
          </Link>
        )}
      </div>
    </div>
  );
}
