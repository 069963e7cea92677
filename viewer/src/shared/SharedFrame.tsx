import { type ReactNode, useState } from "react";
import { clock } from "../model/format";
import type { Page } from "../model/route";
import { useText } from "../text";
import { useKeys } from "../ui/keys";
import { Link } from "../ui/Link";
import { navigate } from "../ui/url";
import { Breadcrumb } from "../views/frame/Breadcrumb";
import { Controls, useTheme } from "../views/frame/Controls";
import "../views/frame/frame.css";
import Help from "../views/frame/Help";
import { archive, START } from "./archive";
import { useSharedText } from "./text";

/** What stands around the pages of a shared file: where one is, and from when it is. */
export function SharedFrame({ page, children }: { page: Page; children: ReactNode }) {
  const t = useText();
  const own = useSharedText();
  const [helpOpen, setHelpOpen] = useState(false);
  const toggleTheme = useTheme();
  useKeys([
    { keys: "?", label: t.keys.help, run: () => setHelpOpen(true) },
    { keys: "g h", label: own.start, run: () => navigate(START) },
    { keys: "g d", label: t.keys.theme, run: toggleTheme },
  ]);
  return (
    <div className="frame">
      <header className="header">
        <Link href={START} className="brand" title={own.start}>
          rolltrace
        </Link>
        <Breadcrumb page={page} />
        <span className="grow" />
        <span className="state" title={`rolltrace ${archive.version}`}>
          {own.from(clock(archive.made_ns, 0))}
        </span>
        <Controls onTheme={toggleTheme} onHelp={() => setHelpOpen(true)} />
      </header>
      <main id="main" className="main" tabIndex={-1}>
        {children}
      </main>
      {helpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </div>
  );
}
