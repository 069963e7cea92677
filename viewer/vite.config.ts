import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

// `make check` builds into a scratch folder and compares it with what is committed.
const outDir = process.env.VIEWER_OUT ?? "../src/rolltrace/view/static";

/** What the first script needs, and nothing of React: it asks for data while the rest loads. */
const FIRST =
  /vite\/preload-helper|\/src\/(main|api\/(client|early|number|source)|model\/(first|route|scope|tokens|where)|ui\/(address|place|script)|views\/pages|root|base)\.ts/;
const LOADED_LATER = /node_modules\/(uplot|diff|react-resizable-panels)\//;
const SHARED =
  /\/src\/(start|api\/|text\/|views\/(App|frame\/(?!Help)|parts\/)|model\/(?!charts|diff|markdown)|ui\/(?!Chart|chart|HistogramBrush|JsonTree|MenuList))/;

/** Few scripts, since each is a request: what all pages share is one, what a page adds another. */
function chunkOf(id: string): string | undefined {
  if (FIRST.test(id)) return "first";
  if (/node_modules\/(@ariakit|@floating-ui)\//.test(id)) return "ariakit";
  if (id.includes("/node_modules/")) return LOADED_LATER.test(id) ? undefined : "base";
  return SHARED.test(id) ? "base" : undefined;
}

/** What the first script asks for at once is named in the page, so that it comes beside it, and no page without style. */
function preload(): Plugin {
  const inHead = (tag: string, attrs: Record<string, string | boolean>) => ({ tag, attrs, injectTo: "head" as const });
  return {
    name: "preload",
    transformIndexHtml: {
      order: "post",
      handler: (_, { bundle }) =>
        Object.values(bundle ?? {})
          .filter((chunk) => chunk.type === "chunk")
          .filter((chunk) => chunk.name === "base")
          .flatMap(({ fileName, viteMetadata }) => [
            inHead("link", { rel: "modulepreload", crossorigin: true, href: `./${fileName}` }),
            ...[...(viteMetadata?.importedCss ?? [])].map((file) =>
              inHead("link", { rel: "stylesheet", crossorigin: true, href: `./${file}` }),
            ),
          ]),
    },
  };
}

export default defineConfig(({ command }) => ({
  // Relative: the server writes the way to the root into each page (view/pages.py).
  base: command === "build" ? "./" : "/",
  plugins: [react(), preload()],
  build: {
    outDir,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // a data: address would need a hole in the content security policy
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
    rollupOptions: { output: { manualChunks: chunkOf } },
  },
  server: { proxy: { "/api": { target: process.env.ROLLTRACE_VIEW ?? "http://127.0.0.1:7655", changeOrigin: true } } },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
}));
