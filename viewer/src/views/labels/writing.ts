/** Who writes labels here and which keys give them: as this browser has it set up, else as the server says. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { ServerProblem } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import { writeLabel } from "../../api/write";
import { GIVEN, keyLabels } from "../../model/labels";
import { useStored } from "../../ui/stored";

export interface Writing {
  readonly author: string;
  readonly names: readonly string[];
  /** Why nothing can be written; null if it can. */
  readonly refusal: string | null;
  readonly problem: ServerProblem | null;
  readonly busy: boolean;
  readonly setAuthor: (name: string) => void;
  readonly setNames: (typed: string) => void;
  /** Give a label, or take it back where the value is null. */
  readonly write: (
    ids: readonly string[],
    opId: string | null,
    name: string,
    value?: string | null,
  ) => Promise<boolean>;
}

export function useWriting(): Writing {
  const status = useAnswer("/api/status").data;
  const client = useQueryClient();
  const [author, setAuthor] = useStored("author");
  const [names, setNames] = useStored("labels");
  const [problem, setProblem] = useState<ServerProblem | null>(null);
  const [busy, setBusy] = useState(0);
  const me = author || status?.author || "";
  const write: Writing["write"] = async (ids, opId, name, value = GIVEN) => {
    setBusy((count) => count + 1);
    try {
      await writeLabel({ trajectory_ids: [...ids], op_id: opId, name, value, author: me || null });
      setProblem(null);
      return true;
    } catch (error) {
      setProblem(error as ServerProblem);
      return false;
    } finally {
      setBusy((count) => count - 1);
      void client.invalidateQueries();
    }
  };
  return {
    author: me,
    names: names === null ? (status?.labels ?? []) : keyLabels(names),
    refusal: status ? status.read_only : "",
    problem,
    busy: busy > 0,
    setAuthor: (name) => setAuthor(name.trim() || null),
    setNames: (typed) => setNames(keyLabels(typed).join(",") || null),
    write,
  };
}
