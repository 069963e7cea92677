import "./labels.css";

/** Labels in one line; where there is no room for all, a number tells how many more there are. */
export function LabelChips({ labels, most = 3 }: { labels: readonly string[]; most?: number }) {
  if (labels.length === 0) return null;
  const rest = labels.slice(most);
  return (
    <span className="chips">
      {labels.slice(0, most).map((label) => (
        <span key={label} className="chip label-chip" title={label}>
          <bdi>{label}</bdi>
        </span>
      ))}
      {rest.length > 0 && (
        <span className="chip quiet" title={rest.join(", ")}>
          +{rest.length}
        </span>
      )}
    </span>
  );
}
