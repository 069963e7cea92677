import type { WireNumber } from "../../api/number";
import { type CellLook, cellLook } from "../../model/cells";
import type { Range } from "../../model/scale";
import "./parts.css";

const SIGNS: Record<NonNullable<CellLook["mark"]>, string> = {
  error: "×",
  interrupted: "!",
  cancelled: "–",
  running: "…",
};

interface Props {
  cell: { reward: WireNumber | null; status: string; truncated?: boolean; flags?: readonly string[] };
  range: Range | null;
  small?: boolean;
}

/** A reward as a filled square, with marks for error, cut, flagged, running. Decoration: words stand beside it. */
export function RewardSquare({ cell, range, small }: Props) {
  const look = cellLook(cell, range);
  const classes = ["square", small ? "small" : "", look.nan ? "nan" : "", look.fill ? "" : "none"];
  if (look.cut) classes.push("hatched");
  if (look.light) classes.push("light");
  return (
    <span
      className={classes.filter(Boolean).join(" ")}
      style={look.fill ? { backgroundColor: look.fill } : undefined}
      aria-hidden
    >
      {look.mark && !small && <i className={look.mark}>{SIGNS[look.mark]}</i>}
      {look.flagged && !small && <b />}
    </span>
  );
}
