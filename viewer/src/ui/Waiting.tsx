/** What stands where a page will be, if it takes more than a moment: a bar, and columns under it. */
export function Waiting({ columns }: { columns: readonly string[] }) {
  return (
    <div className="waiting late" aria-busy>
      <div className="skeleton" />
      <div className="waiting-columns" style={{ gridTemplateColumns: columns.join(" ") }}>
        {columns.map((_, index) => (
          <div key={index} className="skeleton" />
        ))}
      </div>
    </div>
  );
}
