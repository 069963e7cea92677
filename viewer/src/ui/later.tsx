import { type ComponentType, createElement, type ReactNode, useEffect, useState } from "react";
import type { Script } from "./script";

/**
 * A component whose script is loaded when it is shown first; nothing stands there meanwhile, or what `waiting` gives.
 *
 * Not `lazy` and `Suspense`: where React has shown a fallback, it holds back what replaces it for 300 ms.
 */
export function later<P extends object>(
  script: Script<{ default: ComponentType<P> }>,
  waiting?: (props: P) => ReactNode,
): ComponentType<P> {
  // biome-ignore lint/correctness/noComponentHookFactories: like `lazy`, it is called once for each script
  return function Later(props: P) {
    const [, setLoaded] = useState(script.loaded);
    const [fault, setFault] = useState<unknown>(null);
    useEffect(() => {
      script.load().then(setLoaded, setFault);
    }, []);
    if (fault !== null) throw fault; // to the error boundary around it
    return script.loaded ? createElement(script.loaded.default, props) : waiting?.(props);
  };
}
