/** Results of tools that are tables: lists of flat objects with the same keys. */

export interface ResultTable {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

const MOST_ROWS = 200;
const MOST_COLUMNS = 20;

/** A JSON text as a table; null if it is none, or only its beginning is there. */
export function tableIn(text: string): ResultTable | null {
  if (!/^\s*\[\s*\{/.test(text)) return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!Array.isArray(value) || value.length < 2 || value.length > MOST_ROWS || !value.every(isFlatRow)) return null;
  const columns = [...new Set(value.flatMap((row) => Object.keys(row)))];
  if (columns.length > MOST_COLUMNS || value.some((row) => Object.keys(row).length < columns.length / 2)) return null;
  return { columns, rows: value.map((row) => columns.map((column) => cellText(row[column]))) };
}

function isFlatRow(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((item) => typeof item !== "object" || item === null);
}

function cellText(value: unknown): string {
  return value === undefined || value === null ? "" : String(value);
}
