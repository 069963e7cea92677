import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import type { ServerProblem } from "./api/client";
import "./ui/base.css";
import { handleKey } from "./ui/keys";
import { App } from "./views/App";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      retry: (failures, error) => (error as ServerProblem).unreachable === true && failures < 2,
      networkMode: "always", // the server is on this machine, with or without a network
    },
  },
});

/** Draws the page of the current address. */
export function start(): void {
  window.addEventListener("keydown", handleKey);
  createRoot(document.getElementById("root")!).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}
