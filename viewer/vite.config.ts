import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// `make check` builds into a scratch folder and compares it with what is committed.
const outDir = process.env.VIEWER_OUT ?? "../src/rolltrace/view/static";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // a data: address would need a hole in the content security policy
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { "/api": { target: process.env.ROLLTRACE_VIEW ?? "http://127.0.0.1:7655", changeOrigin: true } } },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
