import { useStored } from "../../ui/stored";

const MOST = 20;

/** The filters that were used in this browser, the newest first. */
export function useFilterHistory(): [string[], (where: string) => void] {
  const [stored, setStored] = useStored("filters");
  const filters = parse(stored);
  const remember = (where: string) =>
    setStored(JSON.stringify([where, ...filters.filter((each) => each !== where)].slice(0, MOST)));
  return [filters, remember];
}

function parse(stored: string | null): string[] {
  try {
    const value: unknown = JSON.parse(stored ?? "[]");
    return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
  } catch {
    return [];
  }
}
