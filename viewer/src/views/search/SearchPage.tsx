import { useEffect, useRef, useState } from "react";
import { usePages } from "../../api/hooks";
import type { Match, SearchHit, SearchStep } from "../../api/types.gen";
import { stepPath, trajectoryPath } from "../../model/route";
import type { Scope } from "../../model/scope";
import { literal } from "../../model/where";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { Link } from "../../ui/Link";
import { setQuery, useUrl } from "../../ui/url";
import { CopyAs } from "../parts/CopyAs";
import { OlderRunsNote } from "../parts/OlderRunsNote";
import { ProblemPanel } from "../parts/Problem";
import { HitHead } from "./HitHead";
import "./search.css";

const SHORTEST = 2;

/** Where a text occurs, in an experiment, a step or everywhere, grouped by trajectory. */
export default function SearchPage() {
  const t = useText();
  const { query } = useUrl();
  const q = query.get("q") ?? "";
  const [draft, setDraft] = useState(q);
  useEffect(() => setDraft(q), [q]);
  const input = useRef<HTMLInputElement>(null);
  const allRuns = query.get("runs") === "all";
  const step = query.get("step");
  const place = {
    project: query.get("project") ?? undefined,
    experiment: query.get("experiment") ?? undefined,
    step: step === null ? undefined : Number(step),
  };
  useEffect(() => {
    if (q === "") input.current?.focus();
  }, [q]);
  useKeys([{ keys: "f", label: t.keys.searchPage, run: () => input.current?.select() }]);
  const placeWord = [place.project, place.experiment, step === null ? null : t.frame.step(step)]
    .filter(Boolean)
    .join(" / ");
  const scope: Scope = { ...place, allRuns, where: q ? `text ~ ${literal(q)}` : "" };
  return (
    <div className="search">
      <form
        className="search-bar"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          setQuery({ q: draft.trim() || null });
        }}
      >
        <input
          ref={input}
          className="search-input"
          type="search"
          value={draft}
          placeholder={t.search.placeholder}
          aria-label={t.search.label}
          onChange={(event) => setDraft(event.target.value)}
        />
        <span className="dim cut">{placeWord ? t.search.scope(placeWord) : t.search.everywhere}</span>
        {placeWord && (
          <button type="button" className="button small" onClick={searchEverywhere}>
            {t.search.widen}
          </button>
        )}
        <span className="grow" />
        {q && <CopyAs listing="trajectories" scope={scope} />}
      </form>
      {q.length >= SHORTEST ? (
        <Results q={q} place={place} allRuns={allRuns} />
      ) : (
        <Nothing title={t.empty.searchTitle} text={t.empty.searchText} />
      )}
    </div>
  );
}

function searchEverywhere(): void {
  setQuery({ project: null, experiment: null, step: null });
}

function Nothing({ title, text, widen }: { title: string; text: string; widen?: boolean }) {
  const t = useText();
  return (
    <div className="empty">
      <h1>{title}</h1>
      <p>{text}</p>
      {widen && (
        <button type="button" className="button" onClick={searchEverywhere}>
          {t.search.widen}
        </button>
      )}
    </div>
  );
}

function Results({
  q,
  place,
  allRuns,
}: {
  q: string;
  place: Pick<Scope, "project" | "experiment"> & { step?: number };
  allRuns: boolean;
}) {
  const t = useText();
  const pages = usePages("/api/search", { q, ...place, all_runs: allRuns || undefined, limit: 20 });
  const hits = pages.data?.pages.flatMap((page) => page.hits) ?? [];
  if (pages.error && !pages.data) return <ProblemPanel problem={pages.error} onRetry={() => void pages.refetch()} />;
  if (!pages.data) return <div className="pane-note dim late">{t.problem.loading}…</div>;
  if (hits.length === 0) {
    const inPart = place.project !== undefined || place.experiment !== undefined;
    return <Nothing title={t.empty.searchNone(q)} text={t.empty.searchText} widen={inPart} />;
  }
  return (
    <>
      <OlderRunsNote older={pages.data.pages[0]?.older_runs} allRuns={allRuns} />
      <div className="dim pane-note" role="status">
        {t.search.hits(pages.data.pages[0]?.total ?? hits.length)}
      </div>
      <Steps steps={pages.data.pages[0]?.steps ?? []} />
      <ol className="hits" aria-busy={pages.isPlaceholderData}>
        {hits.map((hit) => (
          <Hit key={hit.row.trajectory_id} hit={hit} />
        ))}
      </ol>
      {pages.hasNextPage && (
        <button
          type="button"
          className="button more"
          disabled={pages.isFetchingNextPage}
          onClick={() => void pages.fetchNextPage()}
        >
          {t.search.more}
        </button>
      )}
    </>
  );
}

/** How often the text occurs in each step. */
function Steps({ steps }: { steps: readonly SearchStep[] }) {
  const t = useText();
  if (steps.length < 2) return null;
  return (
    <details className="hit-steps">
      <summary>{t.search.bySteps}</summary>
      <ul>
        {steps.map((each) => (
          <li key={`${each.project} ${each.experiment} ${each.step}`}>
            <Link href={stepPath(each.project, each.experiment, each.step)}>
              <bdi>{each.experiment}</bdi> {each.step === null ? "" : t.frame.step(each.step)}
            </Link>{" "}
            <span className="dim">
              {t.search.hits(each.trajectories)}, {t.search.messages(each.hits)}
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Hit({ hit }: { hit: SearchHit }) {
  const t = useText();
  return (
    <li className="hit">
      <HitHead row={hit.row} note={t.search.messages(hit.ops)} />
      {hit.matches.map((match, index) => (
        <Link key={index} className="match" href={hrefOf(hit, match)}>
          <span className="match-place dim">
            <bdi className="cut">{match.op_name}</bdi>
            {match.turn !== null && <span>{t.trajectory.turn(match.turn)}</span>}
            {t.search.parts[match.where] && <span>{t.search.parts[match.where]}</span>}
          </span>
          <span className="match-text mono">
            <bdi>
              {oneLine(match.before)}
              <mark>{oneLine(match.match)}</mark>
              {oneLine(match.after)}
            </bdi>
          </span>
        </Link>
      ))}
    </li>
  );
}

function hrefOf(hit: SearchHit, match: Match): string {
  return `${trajectoryPath(hit.row.trajectory_id)}${match.op_id === null ? "" : `#op=${match.op_id}`}`;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ");
}
