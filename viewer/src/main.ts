/** The first script: small, so that what the page shows is on its way while the rest of the viewer still loads. */
import { request } from "./api/client";
import { askEarly } from "./api/early";
import { firstQuestions } from "./model/first";
import { fromRoot } from "./root";
import { currentUrl } from "./ui/address";
import { loadEarly } from "./views/pages";

/** So long an empty page waits for what it will show, rather than be drawn twice. */
const PATIENCE_MS = 150;

// Browsers look for a relative one again whenever the address changes.
const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
if (icon) icon.href = fromRoot("/icon.svg");

const { path, query, anchor } = currentUrl();
const whole = Promise.all([askEarly(firstQuestions(path, query, anchor), request), loadEarly(path, query)]);
const patience = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS));
void Promise.all([import("./start"), Promise.race([whole, patience])]).then(([{ start }]) => start());
