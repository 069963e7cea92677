import { useEffect, useState } from "react";
import { ask } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import { asCommand, asFilter, asPython, type Listing, queryOf, type Scope } from "../../model/scope";
import { useText } from "../../text";
import { copy } from "../../ui/clipboard";
import { Menu } from "../../ui/Menu";

/** The question behind a table, to be asked again elsewhere. */
export function CopyAs({ listing, scope }: { listing: Listing; scope: Scope }) {
  const t = useText();
  const status = useAnswer("/api/status");
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  const path = status.data?.store_path ?? "";
  const choice = (label: string, text: string) => ({ label, run: () => void copy(text).then(setCopied) });
  const copySql = async () => {
    const { sql } = await ask("/api/sql", undefined, { listing, ...queryOf(scope), order: scope.order });
    setCopied(await copy(sql));
  };
  return (
    <Menu
      label={copied ? t.copy.copied : t.copy.menu}
      title={t.copy.menu}
      choices={[
        choice(t.copy.filter, asFilter(scope)),
        { label: t.copy.sql, run: () => void copySql().catch(() => undefined) },
        choice(t.copy.python, asPython(listing, scope, path)),
        choice(t.copy.cli, asCommand(listing, scope, path)),
      ]}
    />
  );
}
