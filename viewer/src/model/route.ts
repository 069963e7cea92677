/** Addresses of pages: the breadcrumb, the URL and the coordinates are one thing. */

export type Page =
  | { name: "experiments" }
  | { name: "experiment"; project: string; experiment: string }
  | { name: "step"; project: string; experiment: string; step: string; sample: string | null }
  | { name: "trajectory"; id: string }
  | { name: "compare" }
  | { name: "live" }
  | { name: "search" }
  | { name: "unknown"; path: string };

/** How a step that was never given stands in an address. */
export const NO_STEP = "none";

export function pageOf(path: string): Page {
  const parts = (path.length > 1 ? path.replace(/\/$/, "") : path).split("/").slice(1).map(decode);
  const [head, ...rest] = parts;
  if (head === "" && rest.length === 0) return { name: "experiments" };
  if (head === "e" && rest.length === 2) return { name: "experiment", project: rest[0]!, experiment: rest[1]! };
  if (head === "e" && rest[2] === "step" && (rest.length === 4 || (rest.length === 6 && rest[4] === "sample")))
    return { name: "step", project: rest[0]!, experiment: rest[1]!, step: rest[3]!, sample: rest[5] ?? null };
  if (head === "t" && rest.length === 1) return { name: "trajectory", id: rest[0]! };
  if ((head === "compare" || head === "live" || head === "search") && rest.length === 0) return { name: head };
  return { name: "unknown", path };
}

export function experimentPath(project: string, experiment: string): string {
  return `/e/${encode(project)}/${encode(experiment)}`;
}

export function stepPath(
  project: string,
  experiment: string,
  step: number | string | null,
  sample?: string | number | null,
) {
  const base = `${experimentPath(project, experiment)}/step/${encode(String(step ?? NO_STEP))}`;
  return sample === undefined || sample === null ? base : `${base}/sample/${encode(String(sample))}`;
}

export function trajectoryPath(id: string): string {
  return `/t/${encode(id)}`;
}

export function comparePath(ids: readonly string[]): string {
  return `/compare?ids=${ids.map(encode).join(",")}`;
}

/** `.` and `..` are taken out of addresses by browsers, and proxies take `%2F` for a slash: so these are spelled out here,
 * as query/search.py does. An empty name needs a sign too. */
function encode(part: string): string {
  if (part === "") return "~";
  if (part === "~") return "%7E";
  if (/^\.+$/.test(part)) return part.replaceAll(".", "%252E");
  return encodeURIComponent(part.replace(/[%/]/g, encodeURIComponent));
}

function decode(part: string): string {
  if (part === "~") return "";
  try {
    const text = decodeURIComponent(part);
    return /^(%2E)+$/.test(text) ? text.replaceAll("%2E", ".") : text.replace(/%2F|%25/g, decodeURIComponent);
  } catch {
    return part;
  }
}
