// Drives a headless Chromium until standard input is closed. Prints {"ready": true}, then reads one command per line, a
// JSON object, and answers each with a JSON object that has the same `id` and a `result` or an `error`:
//   {"open": url, "page": name}
//   and then, for that page: {"type": text} {"press": key} {"click": css} {"hover": css} {"text": css} {"shot": file}
//   {"close": true}
// DRAWBRIDGE_TEST_PLAYWRIGHT: the directory of playwright-core; DRAWBRIDGE_TEST_CHROMIUM: the browser.
import { createRequire } from 'node:module';
import readline from 'node:readline';

const { chromium } = createRequire(import.meta.url)(process.env.DRAWBRIDGE_TEST_PLAYWRIGHT);
const PATIENCE = 60_000; // ms, as in tests/waiting.py
const pages = new Map();

const browser = await chromium.launch({
  executablePath: process.env.DRAWBRIDGE_TEST_CHROMIUM,
  args: process.getuid() === 0 ? ['--no-sandbox'] : [],
  timeout: PATIENCE,
});

async function run(command) {
  const name = command.page ?? 'main';
  if (command.open) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    page.setDefaultTimeout(PATIENCE);
    pages.set(name, page);
    await page.goto(command.open, { waitUntil: 'domcontentloaded', timeout: PATIENCE });
    return null;
  }
  const page = pages.get(name);
  if (command.type !== undefined) return page.keyboard.type(command.type);
  if (command.press) return page.keyboard.press(command.press);
  if (command.click) return page.click(command.click);
  if (command.hover) return page.hover(command.hover);
  if (command.text) return page.locator(command.text).allInnerTexts();
  if (command.shot) return void (await page.screenshot({ path: command.shot }));
  if (command.close) {
    pages.delete(name);
    return page.close({ runBeforeUnload: true });
  }
  throw new Error(`no such command: ${JSON.stringify(command)}`);
}

console.log(JSON.stringify({ ready: true }));
for await (const line of readline.createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let said;
  try {
    said = { result: (await run(command)) ?? null };
  } catch (error) {
    said = { error: String(error).split('\n', 1)[0] };
  }
  console.log(JSON.stringify({ ...said, id: command.id }));
}
await browser.close();
