import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useAnswer } from "../../api/hooks";
import type { Page } from "../../model/route";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { Link } from "../../ui/Link";
import { later } from "../../ui/later";
import { script } from "../../ui/script";
import { Tip } from "../../ui/Tip";
import { navigate } from "../../ui/url";
import { Banners } from "./Banners";
import { Breadcrumb } from "./Breadcrumb";
import { Controls, useTheme } from "./Controls";
import "./frame.css";
import { JumpBox } from "./JumpBox";

const Help = later(script(() => import("./Help")));
const STATUS_EVERY_MS = 3000;

/** What stands around every page: where one is, the jump box, how the store is doing. */
export function Frame({ page, children }: { page: Page; children: ReactNode }) {
  const t = useText();
  const [helpOpen, setHelpOpen] = useState(false);
  const status = useAnswer("/api/status", { every: STATUS_EVERY_MS });
  const jump = useRef<HTMLInputElement>(null);
  const toggleTheme = useTheme();
  useRecovery(status.isError);
  const focusJump = () => jump.current?.focus();
  useKeys([
    { keys: "/", label: t.keys.jump, run: focusJump },
    { keys: "mod+k", label: t.keys.jump, run: focusJump },
    { keys: "?", label: t.keys.help, run: () => setHelpOpen(true) },
    { keys: "g h", label: t.keys.home, run: () => navigate("/") },
    { keys: "g l", label: t.keys.live, run: () => navigate("/live") },
    { keys: "g s", label: t.keys.searchPage, run: () => navigate(searchPath(page)) },
    { keys: "g d", label: t.keys.theme, run: toggleTheme },
  ]);
  return (
    <div className="frame">
      <button type="button" className="skip" onClick={focusMain}>
        {t.frame.skip}
      </button>
      <header className="header">
        <Link href="/" className="brand">
          rolltrace
        </Link>
        <Breadcrumb page={page} />
        <JumpBox input={jump} page={page} />
        <Tip text={t.frame.live}>
          <Link
            href="/live"
            className="state"
            aria-label={`${t.frame.running(status.data?.running ?? 0)}. ${t.frame.live}`}
          >
            <span className={`dot${status.data?.recording ? " on" : ""}`} />
            {status.data ? t.frame.running(status.data.running) : ""}
          </Link>
        </Tip>
        <span className={`state${status.data?.lost ? " err" : ""}`}>
          {status.data ? t.frame.lost(status.data.lost) : ""}
        </span>
        <Controls onTheme={toggleTheme} onHelp={() => setHelpOpen(true)} />
      </header>
      <Banners status={status.data} problem={status.error} />
      <main id="main" className="main" tabIndex={-1}>
        {children}
      </main>
      {helpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </div>
  );
}

/** Searching begins where one is. */
function searchPath(page: Page): string {
  if (page.name !== "experiment" && page.name !== "step") return "/search";
  const place = new URLSearchParams({ project: page.project, experiment: page.experiment });
  if (page.name === "step" && /^\d+$/.test(page.step)) place.set("step", page.step);
  return `/search?${place}`;
}

function focusMain() {
  document.getElementById("main")?.focus();
}

/** Once the server is back, everything that was asked meanwhile is asked again. */
function useRecovery(failing: boolean): void {
  const client = useQueryClient();
  const failed = useRef(false);
  useEffect(() => {
    if (failed.current && !failing) client.invalidateQueries();
    failed.current = failing;
  }, [failing, client]);
}
