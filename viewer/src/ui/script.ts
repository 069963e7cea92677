/** A script that is loaded when it is needed, and what it holds once it is there. */
export interface Script<T> {
  load(): Promise<T>;
  readonly loaded: T | null;
}

/** Whoever loads a script again waits for the same: also for its styles, which are there only when that is done. */
export function script<T>(load: () => Promise<T>): Script<T> {
  let loading: Promise<T> | null = null;
  let loaded: T | null = null;
  return {
    load() {
      loading ??= load().then(
        (module) => {
          loaded = module;
          return module;
        },
        (fault) => {
          loading = null;
          throw fault;
        },
      );
      return loading;
    },
    get loaded() {
      return loaded;
    },
  };
}
