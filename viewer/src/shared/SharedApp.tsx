import { type Page, pageOf } from "../model/route";
import { useText } from "../text";
import { ErrorBoundary } from "../ui/ErrorBoundary";
import { useUrl } from "../ui/url";
import ComparePage from "../views/compare/ComparePage";
import ExperimentPage from "../views/experiment/ExperimentPage";
import Experiments from "../views/experiments/Experiments";
import TrajectoryPage from "../views/trajectory/TrajectoryPage";
import { GroupPage } from "./GroupPage";
import { SharedFrame } from "./SharedFrame";

/** The viewer's pages as far as they are in the file. */
export function SharedApp() {
  const url = useUrl();
  const page = pageOf(url.path);
  const t = useText();
  return (
    <SharedFrame page={page}>
      <ErrorBoundary key={url.path} message={t.problem.crashed} again={t.problem.again}>
        <PageBody page={page} />
      </ErrorBoundary>
    </SharedFrame>
  );
}

function PageBody({ page }: { page: Page }) {
  switch (page.name) {
    case "experiments":
      return <Experiments />;
    case "experiment":
      return <ExperimentPage project={page.project} experiment={page.experiment} />;
    case "step":
      return <GroupPage />;
    case "trajectory":
      return <TrajectoryPage id={page.id} />;
    case "compare":
      return <ComparePage />;
    default:
      return null;
  }
}
