interface Props {
  values: readonly (number | null)[];
  width?: number;
  height?: number;
  label: string;
  /** Index of the value to mark. */
  at?: number;
}

/** A line that shows the way of a number, without axes. Gaps stay gaps. */
export function Sparkline({ values, width = 120, height = 24, label, at }: Props) {
  const finite = values.filter((value): value is number => value !== null && Number.isFinite(value));
  if (finite.length === 0) return <svg width={width} height={height} role="img" aria-label={label} />;
  const min = Math.min(...finite);
  const max = Math.max(...finite);
  const x = (index: number) => 2 + (values.length > 1 ? (index / (values.length - 1)) * (width - 4) : (width - 4) / 2);
  const y = (value: number) => height - 3 - (max > min ? (value - min) / (max - min) : 0.5) * (height - 6);
  let path = "";
  let drawing = false;
  values.forEach((value, index) => {
    const known = value !== null && Number.isFinite(value);
    if (known) path += `${drawing ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    drawing = known;
  });
  const marked = at === undefined ? values.findLastIndex((value) => value !== null && Number.isFinite(value)) : at;
  const value = values[marked];
  return (
    <svg width={width} height={height} role="img" aria-label={label} style={{ display: "block" }}>
      <path d={path} fill="none" stroke="var(--accent)" strokeWidth="1.5" strokeLinejoin="round" />
      {value !== null && value !== undefined && Number.isFinite(value) && (
        <circle cx={x(marked)} cy={y(value)} r="2" fill="var(--accent)" />
      )}
    </svg>
  );
}
