/** Takes the place of `ui/place.ts`: the address stands behind the `#` of the file's own; inside of another page, nowhere. */
import { experimentPath, pageOf } from "../model/route";
import type { isThere as IsThere, readPlace as ReadPlace, writePlace as WritePlace } from "../ui/place";
import { archive, GROUP, START } from "./archive";

const trajectories = new Set(archive.trajectories);
const experiments = new Set(archive.experiments.map(([project, name]) => experimentPath(project, name)));

export const readPlace: typeof ReadPlace = () => {
  const place = location.hash.slice(1);
  return place.startsWith("/") && isThere(place) ? place : START;
};

export const writePlace: typeof WritePlace = (href, { replace }) => {
  try {
    if (replace) history.replaceState(null, "", `#${href}`);
    else history.pushState(null, "", `#${href}`);
  } catch {
    // A notebook's frame has no address of its own; the page changes all the same.
  }
};

export const isThere: typeof IsThere = (href) => {
  const { pathname, searchParams } = new URL(href, "http://localhost");
  const page = pageOf(pathname);
  switch (page.name) {
    case "trajectory":
      return trajectories.has(page.id);
    case "compare": {
      const ids = (searchParams.get("ids") ?? "").split(",");
      return ids.length > 1 && ids.every((id) => trajectories.has(id));
    }
    case "step": // of a step, the file has one group
      return GROUP !== null && (pathname === GROUP || GROUP.startsWith(`${pathname}/sample/`));
    case "experiments":
      return archive.kind === "store";
    case "experiment":
      return experiments.has(pathname);
    default:
      return false;
  }
};
