// Drives a headless browser until standard input is closed. Prints {"ready": true}, then reads one command per line, a
// JSON object, and answers each with a JSON object that has the same `id` and a `result` or an `error`. `page` names
// the person whose window the command is for. Each person has a separate profile, unless `open` names another person in
// `beside`. The errors, warnings and dialogs in each window are recorded.
// DRAWBRIDGE_TEST_PLAYWRIGHT: the directory of playwright-core; DRAWBRIDGE_TEST_CHROMIUM: the browser.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import readline from 'node:readline';

const { chromium } = createRequire(import.meta.url)(process.env.DRAWBRIDGE_TEST_PLAYWRIGHT);
const PATIENCE = 60_000; // ms, as in tests/waiting.py
// What Playwright says when it keeps a page from registering its service worker.
const BLOCKED = 'Service Worker registration blocked by Playwright';
const people = new Map();

const browser = await chromium.launch({
  executablePath: process.env.DRAWBRIDGE_TEST_CHROMIUM,
  args: process.getuid() === 0 ? ['--no-sandbox'] : [],
  timeout: PATIENCE,
});

async function profile({
  width = 1280,
  height = 800,
  dark = false,
  untrusting = false,
  forced = false,
  worker = false,
}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    forcedColors: forced ? 'active' : 'none',
    hasTouch: width < 500,
    ignoreHTTPSErrors: untrusting,
    serviceWorkers: worker ? 'allow' : 'block', // without it, each window costs less
    locale: 'en-GB',
    timezoneId: 'UTC',
  });
  await context.addInitScript(() => {
    globalThis.ignoredClicks = 0;
    const count = ({ target }) => (globalThis.ignoredClicks += target.closest?.('.moved') ? 1 : 0);
    addEventListener('click', count, true);
  });
  return context;
}

async function open({ page: name, url, beside, held, ...how }) {
  const context = beside ? people.get(beside).context : await profile(how);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const person = { context, page, complaints: [], requests: [] };
  page.on('console', (message) => {
    const text = message.text();
    if (['error', 'warning'].includes(message.type()) && text !== BLOCKED) person.complaints.push(text);
  });
  page.on('pageerror', (error) => person.complaints.push(String(error)));
  page.on('dialog', (dialog) => {
    person.complaints.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  // Without a listener, the browser opens its own file dialog. A listener takes effect only after some time.
  page.on('filechooser', () => {});
  page.on('request', (request) => person.requests.push(request.url()));
  people.set(name, person);
  if (held) await page.route(`**/${held}`, (route) => (person.held = route));
  await page.goto(url);
}

const later = (milliseconds) => new Promise((end) => setTimeout(end, milliseconds));

// What a window shows when a command has failed, and whether it is drawn at all.
async function described({ page, complaints }) {
  const frame = page.evaluate(() => new Promise((frame) => requestAnimationFrame(frame))).then(() => 'drawn');
  const state = await Promise.race([frame, later(2_000).then(() => 'NOT drawn')]);
  const [text] = await Promise.race([page.locator('body').allInnerTexts(), later(5_000).then(() => [''])]);
  return `${state}, ${JSON.stringify(complaints)}, shows: ${text.replaceAll(/\s+/g, ' ').slice(0, 500)}`;
}

const commands = {
  open,
  close: async ({ page: name }, { context, page }) => {
    people.delete(name);
    if ([...people.values()].some((other) => other.context === context)) await page.close();
    else await context.close();
  },
  // Clicks again, as a person would, if the click was ignored because the button had just moved.
  click: async ({ css }, { page }) => {
    const ignored = () => page.evaluate('ignoredClicks').catch(() => 0); // the click may have left the page
    for (const end = Date.now() + PATIENCE; ; ) {
      const before = await ignored();
      await page.locator(css).first().click();
      if ((await ignored()) === before || Date.now() > end) return;
    }
  },
  clickUntil: async ({ css, seen }, { page }) => {
    const found = page.locator(seen).first();
    for (let tries = 0; tries < 20; tries++) {
      await page
        .locator(css)
        .first()
        .click({ timeout: 3_000 })
        .catch(() => {});
      if (
        await found.waitFor({ timeout: 3_000 }).then(
          () => true,
          () => false,
        )
      )
        return;
    }
    throw new Error(`clicks on ${css} did not lead to ${seen}`);
  },
  fill: ({ css, text }, { page }) => page.locator(css).first().fill(text),
  choose: ({ css, files }, { page }) => page.locator(css).setInputFiles(files),
  press: ({ key }, { page }) => page.keyboard.press(key),
  // Presses a key that opens the browser's file dialog, and chooses these files.
  pressAndChoose: async ({ key, files }, { page }) => {
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.keyboard.press(key)]);
    await chooser.setFiles(files);
  },
  // Clicks or taps at a position, whatever is there.
  tap: ({ x, y, touches }, { page }) => (touches ? page.touchscreen.tap(x, y) : page.mouse.click(x, y)),
  // Zooms like a pinch with two fingers.
  zoom: async ({ factor }, { context, page }) => {
    const session = await context.newCDPSession(page);
    await session.send('Emulation.setPageScaleFactor', { pageScaleFactor: factor });
    await session.detach();
  },
  type: ({ text }, { page }) => page.keyboard.type(text),
  insert: ({ text }, { page }) => page.keyboard.insertText(text),
  select: ({ css, value }, { page }) => page.locator(css).selectOption(value),
  sees: ({ css, text }, { page }) =>
    page
      .locator(css)
      .filter(text === undefined ? {} : { hasText: text })
      .first()
      .waitFor(),
  gone: ({ css, text }, { page }) =>
    page
      .locator(css)
      .filter(text === undefined ? {} : { hasText: text })
      .first()
      .waitFor({ state: 'hidden' }),
  texts: ({ css }, { page }) => page.locator(css).allInnerTexts(),
  visible: ({ css }, { page }) => page.locator(css).first().isVisible(),
  value: ({ css }, { page }) => page.locator(css).first().inputValue(),
  run: ({ code }, { page }) => page.evaluate(code),
  // Polls instead of using waitForFunction, because the content security policy forbids the `eval` that it needs.
  until: async ({ code }, { page }) => {
    for (
      const end = Date.now() + PATIENCE;
      !(await page.evaluate(code));
      await new Promise((later) => setTimeout(later, 20))
    ) {
      if (Date.now() > end) throw new Error(`not within ${PATIENCE} ms`);
    }
  },
  reload: (_, { page }) => page.reload(),
  // Simulates a slow phone: `cpu` times slower.
  throttle: async ({ cpu }, { context, page }) => {
    const session = await context.newCDPSession(page);
    await session.send('Emulation.setCPUThrottlingRate', { rate: cpu });
  },
  // Lets the held request continue or fail.
  let: async ({ fails }, person) => {
    for (const end = Date.now() + PATIENCE; !person.held; await new Promise((later) => setTimeout(later, 20))) {
      if (Date.now() > end) throw new Error(`nothing was held within ${PATIENCE} ms`);
    }
    await (fails ? person.held.abort() : person.held.continue());
  },
  goto: ({ url }, { page }) => page.goto(url, { waitUntil: 'commit' }).then(() => null),
  offline: ({ on }, { context }) => context.setOffline(on),
  shot: ({ file }, { page }) => page.screenshot({ path: file }).then(() => null),
  allow: ({ what, url }, { context }) => context.grantPermissions(what, { origin: url }),
  worker: ({ code }, { context }) => context.serviceWorkers()[0].evaluate(code),
  // Delivers a push message to the service worker, as the push service would.
  push: async ({ data }, { context, page }) => {
    const session = await context.newCDPSession(page);
    const registered = new Promise((found) =>
      session.on(
        'ServiceWorker.workerRegistrationUpdated',
        ({ registrations }) => registrations.length && found(registrations[0]),
      ),
    );
    await session.send('ServiceWorker.enable');
    const { registrationId, scopeURL } = await registered;
    await session.send('ServiceWorker.deliverPushMessage', { origin: new URL(scopeURL).origin, registrationId, data });
    await session.detach();
  },
  resize: ({ width, height }, { page }) => page.setViewportSize({ width, height }),
  complaints: (_, { complaints }) => complaints.splice(0),
  requests: (_, { requests }) => requests,
  bytes: (_, { page }) =>
    page.evaluate(() => performance.getEntries().reduce((sum, entry) => sum + (entry.transferSize ?? 0), 0)),
  axe: async ({ file }, { page }) => {
    // Evaluated, not added as an element, because the content security policy blocks other scripts.
    if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(fs.readFileSync(file, 'utf8'));
    const found = [];
    // Only the colors depend on the theme.
    for (const [theme, rules] of [
      ['dark', { runOnly: ['color-contrast'] }],
      ['light', {}],
    ]) {
      await page.emulateMedia({ colorScheme: theme });
      await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
      const options = { resultTypes: ['violations'], ...rules };
      const { violations } = await page.evaluate((options) => window.axe.run(document, options), options);
      for (const { id, impact, nodes } of violations)
        found.push(`${theme}, ${impact} ${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`);
    }
    return found;
  },
};

console.log(JSON.stringify({ ready: true }));
for await (const line of readline.createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let said;
  let timer;
  // A page that hangs must not stop the tests after it.
  const late = new Promise(
    (_, fails) => (timer = setTimeout(() => fails(new Error(`no answer within ${2 * PATIENCE} ms`)), 2 * PATIENCE)),
  );
  try {
    said = { result: (await Promise.race([commands[command.do](command, people.get(command.page)), late])) ?? null };
  } catch (error) {
    const what = `${command.do} ${command.css ?? command.code ?? ''} ${command.text ?? ''}`;
    const window = await described(people.get(command.page)).catch(String);
    said = { error: `${what}: ${String(error).split('\n', 1)[0]}\nThe window: ${window}` };
  }
  clearTimeout(timer);
  console.log(JSON.stringify({ ...said, id: command.id }));
}
await browser.close();
