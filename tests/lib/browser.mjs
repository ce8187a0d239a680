// Runs code in a browser for `browser.py`. One line of JSON per request and per answer.
//
// Arguments: the folder of playwright-core and axe-core, and the program of the browser.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [packages, program] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const browser = await chromium.launch({
  executablePath: program,
  // Containers have no user namespaces, and no graphics card.
  args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
});
let page = null;
let problems = [];
let shown = "";

async function open({ width, height, dark, url }) {
  problems = [];
  const look = [width, height, dark].join();
  // Another window of the same kind would take half a second.
  if (look === shown) return void (await page.goto(url));
  shown = look;
  await page?.context().close();
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  page = await context.newPage();
  page.setDefaultTimeout(15000);
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text());
  });
  await page.goto(url);
}

const AsyncFunction = (async () => {}).constructor;
for await (const line of createInterface({ input: process.stdin })) {
  const { what, ...asked } = JSON.parse(line);
  let answer;
  try {
    if (what === "open") await open(asked);
    const value = what === "run" ? await new AsyncFunction("page", "axe", asked.code)(page, axe) : null;
    answer = { value: value ?? null, problems };
  } catch (error) {
    answer = { error: String(error?.stack ?? error), problems };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
await browser.close();
