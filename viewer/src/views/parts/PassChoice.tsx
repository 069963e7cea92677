import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { ServerProblem } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import type { Experiment } from "../../api/types.gen";
import { writePass } from "../../api/write";
import { choiceOf, ruleOf } from "../../model/passing";
import { useText } from "../../text";
import "./parts.css";

/** What pass means in an experiment, and a form to choose it for everybody who looks at the store. */
export function PassChoice({ data }: { data: Experiment | undefined }) {
  const t = useText().passing;
  const [open, setOpen] = useState(false);
  const passing = data?.passing;
  if (!data || !passing) return null;
  const said = passing.title === "pass" ? t.means(ruleOf(passing)) : passing.text;
  return (
    <details className="pass-choice" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className={passing.problem ? "err" : undefined} title={passing.problem ?? t.choose}>
        {said}
      </summary>
      {open && <Form data={data} onDone={() => setOpen(false)} />}
    </details>
  );
}

function Form({ data, onDone }: { data: Experiment; onDone: () => void }) {
  const t = useText().passing;
  const client = useQueryClient();
  const refusal = useAnswer("/api/status").data?.read_only ?? null;
  const { project, experiment } = data;
  const passing = data.passing!;
  const terms = [...new Set([...Object.keys(data.training.terms), ...Object.keys(data.validation.terms)])].sort();
  const known = passing.term !== null && terms.includes(passing.term);
  const [term, setTerm] = useState(known ? passing.term! : "");
  const [typed, setTyped] = useState(passing.threshold === null ? "" : String(passing.threshold));
  const [problem, setProblem] = useState<ServerProblem | null>(null);
  const choice = choiceOf(term, typed);
  const save = async (wanted: { term: string | null; threshold: number | null }) => {
    try {
      await writePass({ project, experiment, ...wanted });
      onDone();
    } catch (error) {
      setProblem(error as ServerProblem);
    } finally {
      void client.invalidateQueries();
    }
  };
  return (
    <form
      className="pass-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (choice) void save(choice);
      }}
    >
      <p className="dim">{t.explained}</p>
      <label>
        <span className="dim">{t.value}</span>
        <select value={term} onChange={(event) => setTerm(event.target.value)}>
          <option value="">{t.reward}</option>
          {terms.map((name) => (
            <option key={name} value={name}>
              {t.term(name)}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span className="dim">{t.atLeast}</span>
        <input
          className="input mono"
          inputMode="decimal"
          placeholder={term ? "1" : ""}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
      </label>
      <div className="pass-actions">
        <button type="submit" className="button small primary" disabled={choice === null || refusal !== null}>
          {t.save}
        </button>
        {passing.threshold !== null && (
          <button
            type="button"
            className="button small bare"
            disabled={refusal !== null}
            onClick={() => void save({ term: null, threshold: null })}
          >
            {t.takeBack}
          </button>
        )}
      </div>
      {(problem || refusal || passing.problem) && (
        <p className="err">{problem?.message ?? refusal ?? passing.problem}</p>
      )}
    </form>
  );
}
