/** The script of a shared file: the viewer's own pages over data that is in the file. Built by `vite.shared.config.ts`. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "../ui/base.css";
import { handleKey } from "../ui/keys";
import { SharedApp } from "./SharedApp";

const client = new QueryClient({
  defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY, retry: false, networkMode: "always" } },
});

window.addEventListener("keydown", handleKey);

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <SharedApp />
    </QueryClientProvider>
  </StrictMode>,
);
