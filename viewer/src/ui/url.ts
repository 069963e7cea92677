/** The address for pages: what they show follows it. */
import { useSyncExternalStore } from "react";
import { currentUrl, onChange, type Url } from "./address";

export { currentUrl, hrefWith, navigate, setAnchor, setQuery, within } from "./address";

export function useUrl(): Url {
  return useSyncExternalStore(onChange, currentUrl);
}
