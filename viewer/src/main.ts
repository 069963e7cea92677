/** The first script: small, so that what the page shows is on its way while the rest of the viewer still loads. */
import { askEarly } from "./api/early";
import { firstQuestions } from "./model/first";
import "./ui/base.css";
import { currentUrl } from "./ui/address";
import { loadEarly } from "./views/pages";

const { path, query, anchor } = currentUrl();
askEarly(firstQuestions(path, query, anchor));
loadEarly(path, query);
void import("./start");
