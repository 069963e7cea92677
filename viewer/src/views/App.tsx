import { type Page, pageOf } from "../model/route";
import { useText } from "../text";
import { ErrorBoundary } from "../ui/ErrorBoundary";
import { Link } from "../ui/Link";
import { later } from "../ui/later";
import { useUrl } from "../ui/url";
import { Frame } from "./frame/Frame";
import { PAGES } from "./pages";

const Experiments = later(PAGES.experiments);
const ExperimentPage = later(PAGES.experiment);
const StepPage = later(PAGES.step);
const TrajectoryPage = later(PAGES.trajectory);
const ComparePage = later(PAGES.compare);
const LivePage = later(PAGES.live);
const SearchPage = later(PAGES.search);

export function App() {
  const url = useUrl();
  const page = pageOf(url.path);
  const t = useText();
  return (
    <Frame page={page}>
      <ErrorBoundary key={url.path} message={t.problem.crashed} again={t.problem.again}>
        <PageBody page={page} />
      </ErrorBoundary>
    </Frame>
  );
}

function PageBody({ page }: { page: Page }) {
  switch (page.name) {
    case "experiments":
      return <Experiments />;
    case "experiment":
      return <ExperimentPage project={page.project} experiment={page.experiment} />;
    case "step":
      return <StepPage key={`${page.project}/${page.experiment}`} {...page} />;
    case "trajectory":
      return <TrajectoryPage id={page.id} />;
    case "compare":
      return <ComparePage />;
    case "live":
      return <LivePage />;
    case "search":
      return <SearchPage />;
    case "unknown":
      return <Unknown path={page.path} />;
  }
}

function Unknown({ path }: { path: string }) {
  const t = useText();
  return (
    <div className="empty">
      <h1>{t.empty.notFoundTitle}</h1>
      <p className="mono traced">{path}</p>
      <Link className="button" href="/">
        {t.empty.toExperiments}
      </Link>
    </div>
  );
}
