import { useEffect, useState } from "react";

/** Whether this has been true for a while: what is done within a blink shows no sign of waiting. */
export function useLate(active: boolean, afterMs = 150): boolean {
  const [late, setLate] = useState(false);
  useEffect(() => {
    if (!active) return setLate(false);
    const timer = setTimeout(() => setLate(true), afterMs);
    return () => clearTimeout(timer);
  }, [active, afterMs]);
  return late;
}

/** The value as it was when it last stood still for so long. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
