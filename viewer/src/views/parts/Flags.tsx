import { isBadFlag } from "../../model/cells";
import "./parts.css";

export function FlagChip({ flag, className = "" }: { flag: string; className?: string }) {
  return (
    <span className={`chip${isBadFlag(flag) ? " bad" : ""} ${className}`} title={flag}>
      <span>{flag}</span>
    </span>
  );
}

/** Flags in one line; where there is no room for all, a number tells how many more there are. Narrow windows show one. */
export function FlagChips({ flags, most = 3 }: { flags: readonly string[]; most?: number }) {
  if (flags.length === 0) return null;
  return (
    <span className="chips">
      {flags.slice(0, most).map((flag, index) => (
        <FlagChip key={flag} flag={flag} className={index > 0 ? "wide-only" : undefined} />
      ))}
      <More flags={flags.slice(most)} className="wide-only" />
      <More flags={flags.slice(1)} className="narrow-only" />
    </span>
  );
}

function More({ flags, className }: { flags: readonly string[]; className: string }) {
  if (flags.length === 0) return null;
  return (
    <span className={`chip quiet more ${className}`} title={flags.join(", ")}>
      +{flags.length}
    </span>
  );
}
