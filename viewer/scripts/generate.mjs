// Writes viewer/generated: coastlines, and the colour maps of crates/hyperslab/src/look/colors.rs.
//
// The colours come from the Rust source, so that the page, tiles and PNG files show the same colours.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { mesh } from "topojson-client";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../generated");
mkdirSync(target, { recursive: true });

const rust = readFileSync(join(here, "../../crates/hyperslab/src/look/colors.rs"), "utf8");
const names = /NAMES: \[&str; \d+\] = \[([^\]]*)\]/.exec(rust)[1].match(/[\w-]+/g);
const maps = names.map((name) => {
  const table = name.replace("-", "_").toUpperCase();
  const text = new RegExp(`const ${table}: \\[Color; \\d+\\] =\\s*\\[([\\s\\S]*?)\\];\\n`).exec(rust)[1];
  // A grey is written as [n; 3].
  const stops = [...text.matchAll(/\[(\d+)(?:; 3|, (\d+), (\d+))\]/g)].map(([, r, g, b]) =>
    [r, g ?? r, b ?? r].map(Number),
  );
  return [name, stops];
});
writeFileSync(
  join(target, "colors.ts"),
  `export const COLORS: Record<string, [number, number, number][]> = ${JSON.stringify(Object.fromEntries(maps))};\n`,
);

// Natural Earth 1:110m (public domain). Degrees in hundredths fit in 16 bits: 1 km.
const require = createRequire(import.meta.url);
const land = JSON.parse(readFileSync(require.resolve("world-atlas/land-110m.json"), "utf8"));
const lines = mesh(land, land.objects.land).coordinates;
const numbers = lines.flatMap((line) => [
  line.length,
  ...line.flatMap(([longitude, latitude]) => [Math.round(longitude * 100), Math.round(latitude * 100)]),
]);
const bytes = Buffer.from(Int16Array.from(numbers).buffer);
writeFileSync(
  join(target, "coastlines.ts"),
  `// Per line: its points, then longitude and latitude of each in hundredths of a degree.\n` +
    `export const COASTLINES = "${bytes.toString("base64")}";\n`,
);
