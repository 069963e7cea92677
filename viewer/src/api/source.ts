/** Where answers come from: the server. In a shared file it is replaced by `shared/source.ts`, which has them in the page. */
import { currentBase } from "../base";
import { fromRoot } from "../root";

/** Whether the page is a file with its data inside, and nobody to ask for more. */
export const IS_FILE = false;

export function get(href: string, signal?: AbortSignal): Promise<Pick<Response, "ok" | "status" | "json">> {
  return fetch(fromRoot(href), { signal, headers: { accept: "application/json" }, credentials: "same-origin" });
}

/** The address of an image that was kept. */
export function imageSrc(blob: string): string {
  return fromRoot(`${currentBase()}/api/blob/${encodeURIComponent(blob)}`);
}
