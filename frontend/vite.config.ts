// Two builds: the script of reports, which becomes a part of each, and the page of `whydrop web`.
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

// Reports hold uPlot, and so its licence.
const licence: Plugin = {
  name: "licence",
  generateBundle() {
    this.emitFile({ type: "asset", fileName: "LICENSE.uplot", source: readFileSync("node_modules/uplot/LICENSE") });
  },
};

export default defineConfig(({ mode }) => ({
  publicDir: false,
  plugins: [licence],
  build: {
    outDir: "../src/whydrop/show/assets",
    emptyOutDir: mode === "report",
    target: "es2022",
    lib: {
      entry: `src/${mode}.ts`,
      formats: ["iife"],
      name: "whydrop",
      fileName: () => `${mode}.js`,
      cssFileName: mode,
    },
  },
}));
