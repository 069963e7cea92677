/** The name of an op; where there is little room, what it belongs to is cut before its own name. */
export function OpName({ name, className = "" }: { name: string; className?: string }) {
  const dot = name.lastIndexOf(".", name.length - 2);
  return (
    <span className={`op-label ${className}`} title={name}>
      {dot > 0 && <bdi>{name.slice(0, dot + 1)}</bdi>}
      <bdi>{name.slice(dot > 0 ? dot + 1 : 0)}</bdi>
    </span>
  );
}
