import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

/** Puts uPlot's licence in front of the code that contains uPlot, as the licence asks. */
const licence = {
  name: "licence",
  generateBundle(_, bundle) {
    const text = readFileSync(new URL("node_modules/uplot/LICENSE", import.meta.url), "utf8").trim();
    const code = Object.values(bundle).find((file) => file.type === "chunk");
    code.code = `/*! Contains uPlot.\n\n${text}\n*/\n${code.code}`;
  },
};

/** The server names the prefix of its routes. Without it, as in `npm run dev`, there is none. */
const base = {
  name: "base",
  apply: "serve",
  transformIndexHtml: (html) => html.replace("<!-- base -->", '<base href="/" />'),
};

// The server embeds these files by name, so the names have no hash. It sends an ETag instead.
export default defineConfig({
  base: "./",
  plugins: [licence, base],
  build: {
    outDir: "../crates/serve/assets",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "assets/viewer.js",
        chunkFileNames: "assets/viewer-[name].js",
        assetFileNames: "assets/viewer.[ext]",
        inlineDynamicImports: true,
      },
    },
  },
  server: {
    // `npm run dev` shows the data of `hyperslab serve --port 8000`.
    proxy: { "/api": "http://127.0.0.1:8000", "/zarr": "http://127.0.0.1:8000" },
  },
});
