/** Code inside plain text: where it is, and what its words are. Every character stays as it was written. */

export interface TextPiece {
  readonly kind: "text" | "fence" | "code";
  readonly text: string;
}

const FENCE = /^(`{3,}|~{3,})[^\n`]*$/;

/** A text in pieces: the lines between two fences are code, the fences themselves are `fence`. */
export function withFences(text: string): TextPiece[] {
  if (!text.includes("```") && !text.includes("~~~")) return [{ kind: "text", text }];
  const pieces: TextPiece[] = [];
  let fence: string | null = null;
  const add = (kind: TextPiece["kind"], line: string) => {
    const last = pieces.at(-1);
    if (last?.kind === kind) pieces[pieces.length - 1] = { kind, text: last.text + line };
    else pieces.push({ kind, text: line });
  };
  for (const line of text.split(/(?<=\n)/)) {
    const mark = FENCE.exec(line.trim())?.[1] ?? null;
    if (fence === null && mark !== null) {
      fence = mark;
      add("fence", line);
    } else if (fence !== null && line.trim() === fence) {
      fence = null;
      add("fence", line);
    } else add(fence === null ? "text" : "code", line);
  }
  return pieces;
}

export interface CodePiece {
  readonly kind: "plain" | "word" | "string" | "number" | "comment";
  readonly text: string;
}

const WORDS = new Set(
  (
    "and as assert async await break case catch class const continue def default del do elif else enum except export " +
    "extends finally fn for from func function global if impl import in interface is lambda let match mod mut new " +
    "nonlocal not or package pass print pub raise return select struct super switch this throw trait try type typeof " +
    "use var void where while with yield None True False null true false undefined self SELECT FROM WHERE GROUP ORDER " +
    "BY JOIN LEFT INNER ON AS AND OR NOT NULL LIMIT INSERT UPDATE DELETE CREATE TABLE WITH HAVING DISTINCT"
  ).split(" "),
);
const PIECES =
  /(#[^\n]*|\/\/[^\n]*|-- [^\n]*|\/\*[\s\S]*?\*\/)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(\b\d[\d._]*\b)|([A-Za-z_]\w*)/g;
/** Longer code is shown without colours. */
const MOST_COLOURED = 20_000;

/** The words of code in any language that people write to agents in: strings, numbers, comments, the usual keywords. */
export function codePieces(code: string): CodePiece[] {
  if (code.length > MOST_COLOURED) return [{ kind: "plain", text: code }];
  const pieces: CodePiece[] = [];
  let end = 0;
  const add = (kind: CodePiece["kind"], text: string) => {
    if (text === "") return;
    const last = pieces.at(-1);
    if (kind === "plain" && last?.kind === "plain") pieces[pieces.length - 1] = { kind, text: last.text + text };
    else pieces.push({ kind, text });
  };
  for (const match of code.matchAll(PIECES)) {
    const [text, comment, string, number, word] = match;
    add("plain", code.slice(end, match.index));
    end = match.index + text.length;
    if (comment) add("comment", text);
    else if (string) add("string", text);
    else if (number) add("number", text);
    else add(WORDS.has(word!) ? "word" : "plain", text);
  }
  add("plain", code.slice(end));
  return pieces;
}
