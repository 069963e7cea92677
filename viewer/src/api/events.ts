/** Server-sent events: what runs right now, as it happens. */
import { useEffect, useState } from "react";
import { currentBase } from "../base";
import { fromRoot } from "../root";
import type { Live } from "./types.gen";

export interface LiveState {
  readonly live: Live | null;
  readonly connected: boolean;
}

/** Connects while the page is seen, and again by itself after an interruption. */
export function useLive(): LiveState {
  const [state, setState] = useState<LiveState>({ live: null, connected: false });
  useEffect(() => {
    let source: EventSource | null = null;
    const connect = () => {
      if (document.hidden || source) return;
      source = new EventSource(fromRoot(`${currentBase()}/api/events`));
      source.addEventListener("live", (event) =>
        setState({ live: JSON.parse((event as MessageEvent<string>).data) as Live, connected: true }),
      );
      source.onerror = () => setState((before) => ({ ...before, connected: false }));
    };
    const disconnect = () => {
      source?.close();
      source = null;
    };
    const seen = () => (document.hidden ? disconnect() : connect());
    connect();
    document.addEventListener("visibilitychange", seen);
    return () => {
      document.removeEventListener("visibilitychange", seen);
      disconnect();
    };
  }, []);
  return state;
}
