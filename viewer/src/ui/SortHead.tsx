import type { Direction } from "../model/order";
import "./table.css";

interface Props {
  label: string;
  title: string;
  direction: Direction;
  numeric?: boolean;
  onSort: () => void;
}

/** The head of a column that can be sorted by. */
export function SortHead({ label, title, direction, numeric, onSort }: Props) {
  return (
    <div role="columnheader" aria-sort={direction} className={numeric ? "head num" : "head"}>
      <button type="button" title={title} onClick={onSort}>
        {label}
        <span aria-hidden>{direction === "descending" ? " ↓" : direction === "ascending" ? " ↑" : ""}</span>
      </button>
    </div>
  );
}
