import { Fragment, useEffect } from "react";
import { useAnswer } from "../../api/hooks";
import type { TrajectoryHead, TrajectoryRow } from "../../api/types.gen";
import { baseOfStore, storeOf } from "../../base";
import { experimentPath, NO_STEP, type Page, stepPath } from "../../model/route";
import { type Catalogue, useText } from "../../text";
import { Link } from "../../ui/Link";
import { Menu } from "../../ui/Menu";
import { navigate, useUrl } from "../../ui/url";

interface Crumb {
  readonly label: string;
  readonly href?: string;
}

/** The coordinates, from the coarsest to the finest: each leads to its page. */
export function Breadcrumb({ page }: { page: Page }) {
  const t = useText();
  const head = useAnswer("/api/trajectory/{trajectory_id}", {
    path: { trajectory_id: page.name === "trajectory" ? page.id : "" },
    enabled: page.name === "trajectory",
  });
  const ids = useUrl().query.get("ids") ?? "";
  const compared = useAnswer("/api/compare", { query: { ids }, enabled: page.name === "compare" && ids.includes(",") });
  const rows = page.name === "compare" ? (compared.data?.columns.map((column) => column.row) ?? []) : [];
  const crumbs =
    page.name === "compare"
      ? comparedCrumbs(rows, t)
      : crumbsOf(page, page.name === "trajectory" ? head.data : undefined, t);
  const title = [...crumbs.map((crumb) => crumb.label).reverse(), "rolltrace"].join(" · ");
  useEffect(() => {
    document.title = title;
  }, [title]);
  const store = storeOf(useUrl().base);
  return (
    <nav className="crumbs" aria-label={t.frame.breadcrumb}>
      <ol>
        {store && (
          <li title={store}>
            <Link href="/">{store}</Link>
          </li>
        )}
        {crumbs.map((crumb, index) => (
          <Fragment key={`${index} ${crumb.label}`}>
            <li aria-current={index === crumbs.length - 1 ? "page" : undefined} title={crumb.label}>
              {crumb.href ? <Link href={crumb.href}>{crumb.label}</Link> : <span>{crumb.label}</span>}
            </li>
            {index === 1 && (page.name === "experiment" || page.name === "step") && <Switcher />}
          </Fragment>
        ))}
      </ol>
    </nav>
  );
}

function Switcher() {
  const t = useText();
  const experiments = useAnswer("/api/experiments");
  const rows = experiments.data?.rows ?? [];
  if (rows.length < 2) return null;
  return (
    <li className="switcher">
      <Menu
        label={<span aria-hidden>▾</span>}
        title={t.frame.experiments}
        className="button bare icon tiny"
        choices={rows.slice(0, 50).map((row) => ({
          label: [row.store, row.project, row.experiment].filter((part) => part !== null).join(" / "),
          detail: t.experiments.states[row.state],
          run: () => navigate(baseOfStore(row.store) + experimentPath(row.project, row.experiment)),
        }))}
      />
    </li>
  );
}

function crumbsOf(page: Page, head: TrajectoryHead | undefined, t: Catalogue): Crumb[] {
  const row = head?.row;
  switch (page.name) {
    case "experiments":
      return [{ label: t.frame.experiments }];
    case "experiment":
    case "step":
      return coordinates(page, t);
    case "trajectory":
      if (!head || !row) return [{ label: page.id.slice(0, 8) }];
      return [
        ...coordinates(
          {
            project: row.project,
            experiment: row.experiment,
            step: String(row.step ?? NO_STEP),
            sample: row.sample_index,
          },
          t,
        ),
        { label: nameOf(head, t) },
      ];
    case "compare":
      return [{ label: t.frame.compare }];
    case "live":
      return [{ label: t.frame.liveCrumb }];
    case "search":
      return [{ label: t.frame.search }];
    case "unknown":
      return [];
  }
}

function nameOf({ row, is_group }: TrajectoryHead, t: Catalogue): string {
  if (is_group) return row.name;
  return row.rollout_n === null ? row.trajectory_id.slice(0, 8) : t.frame.rollout(row.rollout_n);
}

/** The coordinates that all compared trajectories share, then which they are. */
function comparedCrumbs(rows: readonly TrajectoryRow[], t: Catalogue): Crumb[] {
  const [first] = rows;
  const same = (pick: (row: TrajectoryRow) => unknown) => new Set(rows.map(pick)).size === 1;
  if (!first || !same((row) => `${row.project}\n${row.experiment}`)) return [{ label: t.frame.compare }];
  const step = same((row) => row.step) ? String(first.step ?? NO_STEP) : undefined;
  const sample = same((row) => row.sample_index) ? first.sample_index : null;
  const names = rows.map((row) => `n${row.rollout_n ?? "?"}`).join(" · ");
  return [...coordinates({ ...first, step, sample }, t), { label: `${t.frame.compare} ${names}` }];
}

type Coordinates = { project: string; experiment: string; step?: string; sample?: string | null };

function coordinates({ project, experiment, step, sample }: Coordinates, t: Catalogue): Crumb[] {
  const crumbs: Crumb[] = [
    { label: project, href: "/" },
    { label: experiment, href: experimentPath(project, experiment) },
  ];
  if (step !== undefined)
    crumbs.push({
      label: step === NO_STEP ? t.frame.noStep : t.frame.step(step),
      href: stepPath(project, experiment, step),
    });
  if (step !== undefined && sample !== null && sample !== undefined)
    crumbs.push({ label: t.frame.sample(sample), href: stepPath(project, experiment, step, sample) });
  return crumbs;
}
