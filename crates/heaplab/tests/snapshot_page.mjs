// What `heaplab snapshot open --serve` shows, looked at in headless Chromium; the command line's answers are the measure.
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { openBrowser } from '../../report/tests/browser/browser.mjs';

const { HEAPLAB, PAGE, OLDER, NEWER, HEAPLAB_SCREENSHOTS } = process.env;
const MAIN = '#main .row:not(.head)';
const problems = [];
let browser;
let tab;

function asked(...words) {
  return JSON.parse(execFileSync(HEAPLAB, ['snapshot', ...words, '--json', '--quiet'], { maxBuffer: 1 << 28 }));
}

/** Waits until the page has all its answers. */
const quiet = () => tab.waitForFunction(() => document.body.ariaBusy === 'false');

async function view(name) {
  await tab.locator(`#views [data-name="${name}"]`).click();
  await tab.waitForFunction((name) => document.querySelector(`#views [data-name="${name}"]`).ariaSelected === 'true', name);
  await quiet();
}

/** The texts of the first rows, a list of cells each. */
const rows = (selector, count) => tab.locator(selector).evaluateAll((rows, count) =>
  rows.slice(0, count).map((row) => [...row.children].map((cell) => (cell.querySelector('[title]')?.title.endsWith('bytes') ? cell.querySelector('[title]').title : cell.textContent).trim())), count);
const number = (text) => Number(text.replaceAll(',', '').replace('+', '').replace('\u2212', '-').replace(/ bytes$/, ''));
const picture = (name) => HEAPLAB_SCREENSHOTS && tab.screenshot({ path: `${HEAPLAB_SCREENSHOTS}/snapshot-${name}.png` });

before(async () => {
  browser = await openBrowser();
  tab = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
  tab.on('pageerror', (error) => problems.push(String(error)));
  tab.on('console', (message) => problems.push(message.text()));
  await tab.goto(PAGE);
  await tab.waitForSelector(MAIN);
});
after(() => browser?.close());

test('the Summary has the classes of the command line', async () => {
  const { classes } = asked('summary', NEWER);
  const shown = await rows(MAIN, 20);
  assert.deepEqual(shown.map(([, count, , shallow, retained]) => [count, shallow, retained].map(number)),
    classes.slice(0, 20).map((row) => [row.count, row.shallow_bytes, row.retained_bytes]));
  await picture('summary');
});

test('the class filter leaves the classes that have the text', async () => {
  await tab.fill('#classes', 'window');
  await tab.waitForFunction(() => [...document.querySelectorAll('#main .row:not(.head) .what')].every((cell) => /window/i.test(cell.textContent)));
  const expected = asked('summary', NEWER).classes.filter(({ name }) => /window/i.test(name));
  assert.equal(await tab.textContent('#count'), `${expected.length} classes`);
  await tab.fill('#classes', '');
  await tab.waitForFunction((count) => document.querySelector('#count').textContent !== `${count} classes`, expected.length);
});

test('objects that are retained by detached nodes are those of the command line', async () => {
  const { classes } = asked('summary', NEWER, '--filter', 'detached');
  assert.ok(classes.length > 20, 'the file has some');
  await tab.selectOption('#filter', 'detached');
  await quiet();
  assert.deepEqual((await rows(MAIN, 20)).map(([, count]) => number(count)), classes.slice(0, 20).map(({ count }) => count));
  await tab.selectOption('#filter', '');
  await quiet();
});

test('a class opens by the keyboard, and an object shows what retains it', async () => {
  await view('summary');
  await tab.locator(MAIN).first().click();
  for (const key of ['ArrowDown', 'ArrowRight']) await tab.keyboard.press(key);
  await tab.waitForSelector('#main [aria-level="2"]');
  await tab.keyboard.press('ArrowDown');
  await quiet();
  const label = await tab.textContent('#selected strong');
  const id = label.match(/@(\d+)$/)[1];
  const { total, retainers } = asked('retainers', NEWER, `@${id}`, '--depth', '1');
  const shown = (await rows('#pane [aria-level="1"]', retainers.length)).map(([what]) => what);
  assert.ok(total > 0 && shown.length > 0);
  shown.forEach((text, place) => assert.match(text, new RegExp(`@${retainers[place].from.id}(detached)?$`)));
  await tab.locator('#tabs [data-name="object"]').click();
  await tab.waitForSelector('#pane dl');
  const { dominator } = asked('object', NEWER, `@${id}`);
  assert.match(await tab.textContent('#pane dd button'), new RegExp(`@${dominator.id} `));
  await picture('object');
  await tab.locator('#tabs [data-name="retainers"]').click();
});

test('the Comparison is that of diff, and opens to objects', async () => {
  await view('comparison');
  await tab.waitForSelector(MAIN);
  const classes = asked('diff', OLDER, NEWER).classes.sort((a, b) => (b.added_bytes - b.removed_bytes) - (a.added_bytes - a.removed_bytes));
  const [[, added, removed, delta]] = await rows(MAIN, 1);
  const [first] = classes;
  assert.deepEqual([added, removed, delta].map(number), [first.added, first.removed, first.added - first.removed]);
  await tab.locator(`${MAIN} .twist`).first().click();
  await tab.waitForSelector('#main .new');
  await picture('comparison');
});

test('Containment begins at the root', async () => {
  await view('containment');
  await tab.waitForFunction(() => document.querySelector('#main [role="treegrid"]')?.ariaLabel === 'Object');
  const { references } = asked('object', NEWER, '@1');
  const [[what]] = await rows(MAIN, 1);
  assert.match(what, new RegExp(`@${references[0].to.id}(detached)?$`));
});

test('a search finds by name and by id', async () => {
  const search = async (text) => {
    await tab.fill('#text', text);
    await tab.press('#text', 'Enter');
    await quiet();
    return rows(MAIN, 50);
  };
  const [[what], ...others] = await search('@3');
  assert.match(what, /@3$/);
  assert.equal(others.length, 0);
  const found = await search('eleMENT');
  assert.ok(found.length > 10);
  // A long name is cut before the text.
  for (const [what] of found) assert.match(what, /element|…|Show/i);
  assert.equal((await tab.locator(MAIN).count()) - 1, 100, 'rows come a hundred at a time');
  await tab.locator('#main .more').last().click();
  await quiet();
  assert.ok(await tab.locator(MAIN).count() > 101);
  await picture('search');
});

test('Statistics add up, and the map opens', async () => {
  await view('statistics');
  const { total_bytes, statistics } = asked('summary', NEWER);
  const parts = await tab.locator('.statistics tr').count();
  assert.equal(parts, 8);
  assert.ok(total_bytes > statistics.code_bytes);
  await picture('statistics');
  await view('treemap');
  await tab.waitForSelector('button.area');
  const crumbs = await tab.locator('.crumbs button').count();
  await tab.locator('button.area').first().click({ position: { x: 2, y: 2 } });
  await quiet();
  assert.ok(await tab.locator('.crumbs button').count() > crumbs);
  await picture('treemap');
});

test('on a phone every view is in reach', async () => {
  await tab.setViewportSize({ width: 400, height: 800 });
  const right = await tab.$$eval('nav button', (buttons) => Math.max(...buttons.map((button) => button.getBoundingClientRect().right)));
  assert.ok(right <= 400, `a view ends at ${right}`);
  await picture('phone');
});

test('the page made no error', () => assert.deepEqual(problems, []));
