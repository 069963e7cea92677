/** What is selected and where the cursor stands; both are in the address. */
import { toggledIn } from "../../model/order";
import { comparePath } from "../../model/route";
import { navigate, setAnchor, setQuery, useUrl } from "../../ui/url";

export const MOST_COMPARED = 8;

export interface Selection {
  readonly ids: readonly string[];
  readonly at: string | null;
  readonly toggle: (id: string) => void;
  readonly clear: () => void;
  readonly moveTo: (id: string) => void;
  readonly compare: () => void;
}

export function useSelection(): Selection {
  const url = useUrl();
  const ids = (url.query.get("sel") ?? "").split(",").filter(Boolean);
  return {
    ids,
    at: url.anchor.get("at"),
    toggle: (id) => setQuery({ sel: toggledIn(ids, id, MOST_COMPARED).join(",") }, { replace: true }),
    clear: () => setQuery({ sel: null }, { replace: true }),
    moveTo: (id) => setAnchor({ at: id }),
    compare: () => {
      if (ids.length >= 2) navigate(comparePath(ids));
    },
  };
}
