import { defineConfig } from "vite";

// The server embeds these files by name, so the names have no hash. It sends an ETag instead.
export default defineConfig({
  base: "./",
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
