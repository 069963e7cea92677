/** Filters are text in the `where` language; facets and brushes only add and remove conditions of that text. */

const CONDITION_SPLIT = /'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|\(|\)|\band\b|\bor\b/gi;

/** The conditions of a filter that are joined by a top-level `and`; one item if it is joined otherwise. */
export function conditions(where: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (const match of where.matchAll(CONDITION_SPLIT)) {
    const token = match[0].toLowerCase();
    if (token === "(") depth += 1;
    else if (token === ")") depth -= 1;
    else if (depth === 0 && token === "or") return [where.trim()];
    else if (depth === 0 && token === "and") {
      parts.push(where.slice(start, match.index));
      start = match.index + token.length;
    }
  }
  parts.push(where.slice(start));
  return parts.map((part) => part.trim()).filter((part) => part !== "");
}

export function joined(parts: readonly string[]): string {
  if (parts.length < 2) return parts[0] ?? "";
  return parts.map((part) => (hasTopLevelOr(part) ? `(${part})` : part)).join(" and ");
}

export function hasCondition(where: string, condition: string): boolean {
  return conditions(where).some((part) => normal(part) === normal(condition));
}

/** Adds the condition, or takes it out if it is there: what a click on a facet does. */
export function toggled(where: string, condition: string): string {
  const parts = conditions(where);
  const without = parts.filter((part) => normal(part) !== normal(condition));
  return joined(without.length < parts.length ? without : [...parts, condition]);
}

/** Replaces the range of a numeric field; null takes it out. */
export function withRange(where: string, field: string, range: readonly [number, number] | null): string {
  const kept = conditions(where).filter((part) => rangePart(part, field) === null);
  const added = range === null ? [] : [`${field} >= ${literal(range[0])}`, `${field} <= ${literal(range[1])}`];
  return joined([...kept, ...added]);
}

/** The range that a filter gives a field, where it does. */
export function rangeOf(where: string, field: string): [number, number] | null {
  let range: [number, number] | null = null;
  for (const part of conditions(where)) {
    const found = rangePart(part, field);
    if (found === null) continue;
    range ??= [-Infinity, Infinity];
    if (found.operator.startsWith(">")) range[0] = found.value;
    else range[1] = found.value;
  }
  return range;
}

function rangePart(part: string, field: string): { operator: string; value: number } | null {
  const match = /^([\w.]+)\s*(>=|<=|>|<)\s*(-?[\d.]+(?:e[+-]?\d+)?)$/i.exec(part);
  return match && match[1] === field ? { operator: match[2]!, value: Number(match[3]) } : null;
}

/** A value as the filter language writes it. */
export function literal(value: string | number | boolean): string {
  if (typeof value === "string") return `'${value.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
  if (typeof value === "boolean") return String(value);
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return String(Number(value.toPrecision(6)));
}

/** `tag.level`, or `tag."odd name"` where the name needs quotes. */
export function named(prefix: string, name: string): string {
  return /^[A-Za-z0-9_./@-]+$/.test(name) ? `${prefix}.${name}` : `${prefix}."${name.replaceAll('"', '""')}"`;
}

function normal(part: string): string {
  return part.replace(/\s+/g, " ").trim();
}

function hasTopLevelOr(part: string): boolean {
  let depth = 0;
  for (const match of part.matchAll(CONDITION_SPLIT)) {
    const token = match[0].toLowerCase();
    if (token === "(") depth += 1;
    else if (token === ")") depth -= 1;
    else if (token === "or" && depth === 0) return true;
  }
  return false;
}

export interface Piece {
  readonly kind: "word" | "operator" | "text" | "number" | "field" | "space";
  readonly text: string;
}

const PIECES =
  /('(?:[^'\\]|\\.|'')*'?|"(?:[^"\\]|\\.|"")*"?)|(\b(?:and|or|not|in|is|null|true|false|nan|inf)\b|[<>=!~]+)|(-?\b\d[\d.]*(?:e[+-]?\d+)?)|(\s+)|([A-Za-z_][\w.@/-]*)|([\s\S])/gi;

/** The pieces of a filter, for colouring it while it is typed. */
export function pieces(where: string): Piece[] {
  const kinds = ["text", "operator", "number", "space", "field", "word"] as const;
  return Array.from(where.matchAll(PIECES), (match) => ({
    kind: kinds[match.slice(1).findIndex((group) => group !== undefined)]!,
    text: match[0],
  }));
}

/** Positions on the wire count characters (code points); those of a text field count UTF-16 units. */
export function pointsBefore(text: string, units: number): number {
  return Array.from(text.slice(0, units)).length;
}

export function unitsBefore(text: string, points: number): number {
  return Array.from(text).slice(0, points).join("").length;
}
