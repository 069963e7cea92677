import { isBadFlag } from "../../model/cells";
import "./parts.css";

export function FlagChip({ flag }: { flag: string }) {
  return (
    <span className={`chip${isBadFlag(flag) ? " bad" : ""}`} title={flag}>
      <span>{flag}</span>
    </span>
  );
}

/** Flags in one line; where there is no room for all, a number tells how many more there are. */
export function FlagChips({ flags, most = 3 }: { flags: readonly string[]; most?: number }) {
  if (flags.length === 0) return null;
  const rest = flags.slice(most);
  return (
    <span className="chips">
      {flags.slice(0, most).map((flag) => (
        <FlagChip key={flag} flag={flag} />
      ))}
      {rest.length > 0 && (
        <span className="chip quiet" title={rest.join(", ")}>
          +{rest.length}
        </span>
      )}
    </span>
  );
}
