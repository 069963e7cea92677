import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

// One script and one style for files that are opened without a server; `rolltrace.view` puts them into each.
const outDir = process.env.SHARED_OUT ?? "../src/rolltrace/view/shared_page";

/** What asks the server and what knows the browser's address has a counterpart that finds both in the file. */
const REPLACED: Record<string, string> = {
  "src/api/source.ts": "src/shared/source.ts",
  "src/ui/place.ts": "src/shared/place.ts",
  "src/views/pages.ts": "src/shared/pages.ts",
};

function pathOf(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}

function replaceSources(): Plugin {
  const replaced = new Map(Object.entries(REPLACED).map(([from, to]) => [pathOf(from), pathOf(to)]));
  return {
    name: "replace-sources",
    enforce: "pre",
    async resolveId(source, importer, options) {
      const resolved = await this.resolve(source, importer, { ...options, skipSelf: true });
      return resolved === null ? null : (replaced.get(resolved.id) ?? resolved);
    },
  };
}

/** The first script of a file is small and stays as it was written. */
function emitLoader(): Plugin {
  return {
    name: "emit-loader",
    generateBundle() {
      this.emitFile({
        type: "asset",
        fileName: "loader.js",
        source: readFileSync(pathOf("src/shared/loader.js"), "utf8"),
      });
    },
  };
}

export default defineConfig({
  plugins: [replaceSources(), react(), emitLoader()],
  publicDir: false,
  build: {
    outDir,
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: false,
    chunkSizeWarningLimit: 1000,
    rollupOptions: {
      input: "src/shared/main.tsx",
      output: {
        format: "iife",
        inlineDynamicImports: true,
        entryFileNames: "script.js",
        assetFileNames: "style[extname]",
      },
    },
  },
});
