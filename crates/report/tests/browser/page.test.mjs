// What the report page shows, asked of a real browser. The pages and the model that each was made from lie in the
// folder HEAPLAB_PAGES; every number that is looked for is worked out from the model here.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, describe, test } from 'node:test';
import { PATIENCE_MS, openBrowser } from './browser.mjs';
import { contrastFaults, focusFaults, structureFaults } from './judge.mjs';

const folder = process.env.HEAPLAB_PAGES;
const addressOf = (name) => pathToFileURL(join(folder, `${name}.html`)).href;
const rangesOf = (name) => JSON.parse(readFileSync(join(folder, `${name}-ranges.json`), 'utf8'));
const modelOf = (name) => JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8'));
const exact = (bytes) => `${bytes.toLocaleString('en-US')} bytes`;
const PARALLEL = { concurrency: 4 };
const LAPTOP = { width: 1366, height: 900 };
const PHONE = { width: 390, height: 844 };

let browser;
before(async () => { browser = await openBrowser(); });
after(async () => { await browser?.close(); });

// Opens a page, gives what the test wants to see of it, and checks that nothing was asked of anybody and nothing failed.
async function open(name, look, options = {}) {
  const context = await browser.newContext({ viewport: LAPTOP, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  const tab = await context.newPage();
  const wrong = [];
  tab.on('pageerror', (error) => wrong.push(`error: ${error.message}`));
  tab.on('console', (message) => wrong.push(`console: ${message.text()}`));
  tab.on('request', (request) => { if (request.url() !== addressOf(name) && !request.url().startsWith('data:')) wrong.push(`request: ${request.url()}`); });
  try {
    await tab.goto(addressOf(name));
    await tab.waitForSelector('html[data-ranges]');
    await settled(tab);
    await look(tab, modelOf(name));
    assert.deepEqual(wrong, []);
    assert.equal(await tab.evaluate(() => window.hacked), undefined, 'a name ran as a script');
    assert.equal(await tab.getByText('could not be drawn').count(), 0);
  } finally {
    await context.close();
  }
}

// Charts are drawn when their width is known, which is with a frame, and what is in details comes when they have opened.
const settled = (tab) => tab.evaluate(() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)));
}));

const titles = (tab, selector) => tab.$$eval(`${selector} [title]`, (nodes) => nodes.map((node) => node.title));

describe('summary', PARALLEL, () => {
  test('figures are the model’s, to the byte', () => open('full', async (tab, model) => {
    const shown = await titles(tab, '#figures');
    for (const bytes of [model.totals.peak_bytes, model.totals.peak_slop_bytes, model.totals.resident_peak_bytes, model.totals.requested_bytes, model.totals.end_bytes]) {
      assert.ok(shown.includes(exact(bytes)), `${exact(bytes)} in ${shown}`);
    }
    assert.equal(await tab.textContent('h1'), model.recording.program);
    assert.match(await tab.textContent('#lead'), new RegExp(model.findings[0].title.slice(0, 20).replace(/[.*+?^${}()|[\]\\]/g, '\\$&')));
  }));

  test('cuts and losses stand at the top', () => open('bare', async (tab, model) => {
    const notices = await tab.textContent('#notices');
    assert.ok(notices.includes(model.recording.cut));
    assert.ok(notices.includes(model.recording.losses[0]));
  }));
});

describe('live bytes over time', PARALLEL, () => {
  test('pointing reads the model’s value there', () => open('full', async (tab, model) => {
    const chart = await tab.locator('#time svg.chart').boundingBox();
    await tab.mouse.move(chart.x + chart.width / 2, chart.y + 100);
    const shown = await titles(tab, '#time .readout');
    const index = model.timeline.live_bytes.findIndex((bytes) => exact(bytes) === shown[0]);
    const share = model.timeline.at[index] / model.timeline.end;
    assert.ok(Math.abs(share - 0.48) < 0.05, `read at ${share}`);
  }));

  test('memory goes up and down at once', () => open('full', async (tab) => {
    for (const drawn of await tab.locator('#time svg.chart .area, #time svg.chart .line').all()) {
      const steps = await drawn.getAttribute('d');
      // An area starts at its floor and goes straight up.
      const level = steps.replace(/^M([\d.-]+),[\d.-]+L\1,/, 'M$1,');
      assert.match(level, /^M[\d.-]+,[\d.-]+(H[\d.-]+|V[\d.-]+)*Z?$/, steps.slice(0, 200));
    }
  }));

  test('the scale is that of what is shown', () => open('full', async (tab, model) => {
    await tab.getByLabel('resident memory').uncheck();
    const chart = await tab.locator('#time svg.chart').boundingBox();
    // The first pixels of the run, while little is live.
    await tab.mouse.move(chart.x + 71, chart.y + 100);
    await tab.mouse.down();
    await tab.mouse.move(chart.x + 81, chart.y + 100, { steps: 2 });
    await tab.mouse.up();
    await tab.getByRole('button', { name: 'Zoom to the range' }).click();
    const top = () => tab.evaluate(() => document.querySelector('#time svg.chart .area').getBBox().y);
    assert.ok(await tab.getByRole('button', { name: 'Whole run' }).isEnabled());
    assert.ok(await top() < 120, `what is there fills the chart: ${await top()}`);
    const ticks = await tab.locator('#time svg.chart .grid text').allTextContents();
    assert.ok(!ticks.includes(exact(model.totals.peak_bytes)), ticks.join(', '));
  }));

  test('marks and the peak are named', () => open('full', async (tab, model) => {
    const texts = await tab.locator('#time svg.chart text').allTextContents();
    for (const mark of model.timeline.marks) assert.ok(texts.includes(mark.name), mark.name);
    assert.ok(texts.some((text) => text.startsWith('peak ')));
  }));

  test('a child’s chart begins with it, names what has room, and lists all marks', () => open('child', async (tab, model) => {
    const texts = await tab.locator('#time svg.chart text').allTextContents();
    assert.deepEqual(model.timeline.marks.filter((mark) => texts.includes(mark.name)).map((mark) => mark.name), ['loaded', 'checked', 'own']);
    assert.equal(await tab.locator('#time svg.chart .marks line').count(), 4, 'those within its life');
    assert.ok(texts.includes('memory') && texts.includes('time since the recording began'), texts.join(', '));
    assert.equal(await tab.locator('#time svg.chart .dot.resident').count(), model.timeline.samples.time_ns.length);
    assert.match(await tab.textContent('#time .readout'), /^2\.00 ms to 3\.00 ms shown/);
    const rows = await tab.locator('#time .table-block').first().locator('tbody tr').allTextContents();
    assert.match(rows[0], /this process had not begun.*before/);
    assert.match(rows[1], /49\.8 KiB.*loaded10 \(sh\)/);
    assert.match(rows[5], /this process had ended.*loaded#2/);
    assert.match(await tab.textContent('#facts'), /process 11#2 \(tool\), one of 3 processes/);
  }));

  test('dragging chooses a range, a button zooms to it, and the whole run comes back', () => open('full', async (tab) => {
    const chart = await tab.locator('#time svg.chart').boundingBox();
    const whole = tab.getByRole('button', { name: 'Whole run' });
    assert.ok(await whole.isDisabled());
    await tab.mouse.move(chart.x + 300, chart.y + 100);
    await tab.mouse.down();
    await tab.mouse.move(chart.x + 500, chart.y + 120, { steps: 4 });
    await tab.mouse.up();
    assert.ok(await whole.isEnabled());
    assert.match(await tab.textContent('#range h3'), /^Range: /);
    const line = () => tab.locator('#time svg.chart .line').first().getAttribute('d');
    const far = await line();
    await tab.getByRole('button', { name: 'Zoom to the range' }).click();
    const zoomed = await line();
    assert.notEqual(zoomed, far);
    const labels = () => tab.locator('#time svg.chart .grid text').allTextContents();
    const near = await labels();
    await whole.click();
    assert.notDeepEqual(await labels(), near, 'both axes have another scale');
    assert.equal(await line(), far);
    assert.equal(await tab.locator('#range h3').count(), 0);
  }));

  test('keys move, zoom and go back', () => open('full', async (tab) => {
    await tab.locator('#time svg.chart').focus();
    await tab.keyboard.press('ArrowRight');
    const first = await tab.textContent('#time .readout');
    await tab.keyboard.press('Shift+ArrowRight');
    assert.notEqual(await tab.textContent('#time .readout'), first);
    await tab.keyboard.press('+');
    assert.ok(await tab.getByRole('button', { name: 'Whole run' }).isEnabled());
    await tab.keyboard.press('Escape');
    assert.ok(await tab.getByRole('button', { name: 'Whole run' }).isDisabled());
    await tab.keyboard.press(']');
    const ended = await tab.textContent('#range h3');
    await tab.keyboard.press('Shift+ArrowLeft');
    await tab.keyboard.press('[');
    const begun = await tab.textContent('#range h3');
    assert.equal(begun.split(' to ')[1], ended.split(' to ')[1], 'the end stays');
    assert.notEqual(begun, ended);
    await tab.keyboard.press('Escape');
    assert.equal(await tab.locator('#range h3').count(), 0);
  }));

  test('the parts of what was resident add up', () => open('full', async (tab, model) => {
    const { resident } = model;
    assert.equal(resident.parts.reduce((sum, part) => sum + part.bytes, 0), resident.bytes);
    assert.equal(Math.max(...resident.time_ns.map((_, at) => resident.kinds.reduce((sum, kind) => sum + kind.bytes[at], 0))), resident.bytes);
    assert.equal(await tab.locator('#resident svg path').count(), resident.kinds.length);
    assert.equal(await tab.locator('#resident tbody tr').count(), resident.parts.length);
    const shown = await titles(tab, '#resident');
    for (const part of resident.parts) assert.ok(shown.includes(exact(part.bytes)), part.label);
    assert.equal(await tab.locator('#resident .swatch-key').count(), resident.kinds.length, 'a colour stands beside its name');
    const axis = await tab.locator('#resident svg text').allTextContents();
    assert.ok(axis.includes('0') && axis.filter((label) => /\d [nµm]?s$/.test(label)).length > 3, `round numbers of both axes: ${axis}`);
  }));

  test('resident memory can be hidden', () => open('full', async (tab) => {
    assert.notEqual(await tab.locator('.line.resident').getAttribute('d'), '');
    await tab.getByLabel('resident memory').uncheck();
    assert.equal(await tab.locator('.line.resident').getAttribute('d'), '');
  }));

  test('the table says the same', () => open('full', async (tab, model) => {
    await tab.getByText('The same as a table').click();
    await tab.locator('#time details tbody tr').first().waitFor();
    const most = (await titles(tab, '#time details tbody td:nth-child(3)')).map((title) => Number(title.replace(/\D/g, '')));
    assert.equal(Math.max(...most), model.totals.peak_bytes);
  }));
});

describe('ranges', PARALLEL, () => {
  const number = (title) => Number(title.replace(/\D/g, ''));
  const figure = (tab, name) => tab.locator('#range .figures > div', { has: tab.getByText(name, { exact: true }) });
  const figures = { 'Live at its start': 'before', 'Live at its end': 'live', 'Asked for inside': 'asked', 'Freed inside': 'freed', 'Born inside and kept': 'kept', Temporary: 'temporary' };

  for (const name of ['full', 'sqlite']) {
    for (const range of [0, 1, 2]) {
      test(`figures, functions and tables are what the events say: ${name}, range ${range + 1}`, () => open(name, async (tab) => {
        const said = rangesOf(name)[range];
        const address = `range=${said.from}-${said.to}&wrappers=shown`;
        await tab.evaluate((hash) => { location.hash = hash; }, `#stacks?${address}&show=live.byte`);
        await tab.waitForSelector('#range h3');
        for (const [title, what] of Object.entries(figures)) {
          assert.equal(number(await figure(tab, title).locator('.n').getAttribute('title')), said[what].bytes, title);
          assert.equal(number(await figure(tab, title).locator('.where').textContent()), said[what].objects, title);
        }
        for (const what of ['live', 'asked']) {
          await tab.evaluate((hash) => { location.hash = hash; }, `#stacks?${address}&show=${what}.byte`);
          await settled(tab);
          const more = tab.locator('#stacks').getByRole('button', { name: /Show all .* functions/ });
          if (await more.count()) await more.click();
          const shown = await tab.$$eval('#stacks .table-block tbody tr', (rows) => rows.map((row) => [row.querySelector('button').title, row.children[1].querySelector('[title]')?.title ?? '0']));
          const sums = {};
          for (const [label, bytes] of shown) if (number(bytes) > 0) sums[label] = (sums[label] ?? 0) + number(bytes);
          assert.deepEqual(sums, said[`${what}_by_function`], what);
          assert.equal(number(await tab.locator('#stacks .readout .n').getAttribute('title')), said[what].bytes);
        }
        const sizes = await tab.$$eval('#sizes table:first-of-type tbody tr', (rows) => rows.map((row) => [1, 2, 3, 4].map((at) => row.children[at].querySelector('[title]')?.title ?? row.children[at].textContent)));
        const column = (rows, at) => rows.slice(0, rows.length).reduce((sum, row) => sum + (row[at] === '–' ? 0 : number(row[at])), 0);
        const buckets = sizes.slice(0, await tab.locator('#sizes table').first().locator('tbody tr').count());
        assert.deepEqual([0, 1, 2, 3].map((at) => column(buckets, at)), [said.asked.objects, said.asked.bytes, said.live.objects, said.live.bytes], 'sizes');
        const end = await titles(tab, '#end tbody td:first-child');
        assert.ok(end.reduce((sum, title) => sum + number(title), 0) <= said.live.bytes);
      }));
    }
  }

  test('the address opens the same, and back undoes', () => open('full', async (tab) => {
    const [, said] = rangesOf('full');
    await tab.evaluate((hash) => { location.hash = hash; }, `#stacks?range=${said.from}-${said.to}`);
    await tab.waitForSelector('#range h3');
    await tab.locator('#stacks').getByLabel('Bottom up').check({ force: true });
    await tab.locator('#stacks').getByLabel('Asked for inside', { exact: true }).check({ force: true });
    const look = () => tab.evaluate(() => [document.querySelector('#range h3')?.textContent, ...[...document.querySelectorAll('#stacks :checked')].map((input) => input.value), document.querySelector('#stacks .legend').textContent, document.querySelector('#stacks .readout').textContent]);
    const seen = await look();
    await tab.reload();
    await tab.waitForSelector('html[data-ranges]');
    await settled(tab);
    assert.deepEqual(await look(), seen);
    await tab.goBack();
    await settled(tab);
    assert.ok((await look()).includes('up') && !(await look()).includes('asked.byte'));
    await tab.goBack();
    await tab.goBack();
    await settled(tab);
    assert.equal(await tab.locator('#range h3').count(), 0);
  }));

  test('findings say what their call paths did inside, and a link opens one', () => open('full', async (tab, model) => {
    const [said] = rangesOf('full');
    await tab.evaluate((hash) => { location.hash = hash; }, `#findings?range=${said.from}-${said.to}`);
    await tab.waitForSelector('#range h3');
    assert.match(await tab.textContent('#findings .note'), /In the range .* to /);
    assert.ok(await tab.locator('#findings .inside').count() > 0);
    const last = model.findings.length;
    await tab.evaluate((hash) => { location.hash = hash; }, `#findings?finding=${last}`);
    await settled(tab);
    const finding = tab.locator(`#finding-${last}`);
    assert.equal(await finding.locator('details').first().evaluate((node) => node.open), true);
    assert.ok(await finding.isVisible());
  }));

  test('a finger chooses a range', () => open('full', async (tab) => {
    await tab.locator('#time svg.chart').scrollIntoViewIfNeeded();
    const chart = await tab.locator('#time svg.chart').boundingBox();
    const session = await tab.context().newCDPSession(tab);
    const touch = (type, x) => session.send('Input.dispatchTouchEvent', { type, touchPoints: type === 'touchEnd' ? [] : [{ x, y: chart.y + 120 }] });
    await touch('touchStart', chart.x + 120);
    for (const x of [140, 170, 210, 250]) await touch('touchMove', chart.x + x);
    await touch('touchEnd', 0);
    await tab.waitForSelector('#range h3');
  }, { viewport: PHONE, hasTouch: true }));
});

describe('flame graph', PARALLEL, () => {
  const total = (model, measure) => model.flame.values[measure][0];

  test('shows the whole, and every measure’s own whole', () => open('full', async (tab, model) => {
    for (const [index, measure] of model.flame.measures.entries()) {
      const [, what, unit] = /^(.*), (\w+)$/.exec(measure.title);
      await tab.locator('#stacks').getByLabel(what, { exact: true }).check({ force: true });
      const units = tab.locator('#stacks').getByLabel(unit, { exact: true });
      if (await units.count()) await units.check({ force: true });
      const readout = tab.locator('#stacks .readout');
      if (measure.unit === 'byte') assert.equal(await readout.locator('.n').getAttribute('title'), exact(total(model, index)));
      else assert.ok((await readout.textContent()).includes(total(model, index).toLocaleString('en-US')));
    }
  }));

  test('a click zooms to what was clicked', () => open('full', async (tab, model) => {
    const canvas = tab.locator('#stacks canvas');
    const { width } = await canvas.boundingBox();
    await canvas.click({ position: { x: 40, y: 5 * 20 + 10 } });
    const label = await tab.locator('#stacks .readout strong').textContent();
    const node = model.flame.frame.findIndex((frame, index) => frame >= 0 && model.frames[frame].label === label && depth(model, index) === 5);
    assert.ok(node > 0, label);
    assert.equal(await tab.locator('#stacks .readout .n').getAttribute('title'), exact(model.flame.values[0][node]));
    await canvas.click({ position: { x: width - 40, y: 5 * 20 + 10 } });
    assert.equal(await tab.locator('#stacks .readout strong').textContent(), label, 'what was clicked now fills the width');
    await tab.getByRole('button', { name: 'Whole graph' }).click();
    assert.equal(await tab.locator('#stacks .readout strong').textContent(), 'all');
  }));

  test('searching says how much was found', () => open('full', async (tab, model) => {
    await tab.getByLabel('Find').fill('render');
    const wanted = model.flame.frame.findIndex((frame) => frame >= 0 && model.frames[frame].label === 'render');
    const share = (100 * model.flame.values[0][wanted]) / total(model, 0);
    assert.ok((await tab.textContent('#stacks .found')).startsWith(`in ${share.toFixed(1)} %`));
    await tab.getByLabel('Find').fill('no such function');
    assert.equal(await tab.textContent('#stacks .found'), 'nothing found');
  }));

  test('keys walk, zoom and go back', () => open('full', async (tab) => {
    const name = () => tab.locator('#stacks .readout strong').textContent();
    await tab.locator('#stacks canvas').focus();
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown']) await tab.keyboard.press(key);
    const first = await name();
    assert.notEqual(first, 'all');
    await tab.keyboard.press('ArrowRight');
    assert.notEqual(await name(), first);
    await tab.keyboard.press('Enter');
    assert.ok(await tab.getByRole('button', { name: 'Whole graph' }).isEnabled());
    await tab.keyboard.press('Escape');
    assert.equal(await name(), 'all');
  }));

  test('a function has callers and callees, and both add up', () => open('full', async (tab, model) => {
    await tab.locator('#stacks tbody button').first().click();
    await settled(tab);
    const shown = await tab.locator('#stacks h3', { hasText: 'Callers and callees of' }).locator('code').getAttribute('title');
    const total = Number((await tab.locator('#stacks h3:has(code) + p .n').first().getAttribute('title')).replace(/\D/g, ''));
    const frame = (node) => model.flame.frame[node];
    const is = (node) => frame(node) >= 0 && model.frames[frame(node)].label === shown;
    let wanted = 0;
    for (let node = 1; node < model.flame.parent.length; node += 1) {
      let above = model.flame.parent[node];
      while (above !== 0 && !is(above)) above = model.flame.parent[above];
      if (is(node) && above === 0) wanted += model.flame.values[0][node];
    }
    assert.equal(total, wanted);
    const callers = await titles(tab, '#stacks .pair > :first-child tbody td:nth-child(2)');
    assert.equal(callers.reduce((sum, title) => sum + Number(title.replace(/\D/g, '')), 0), wanted);
    for (const view of ['Callers', 'Callees']) {
      await tab.locator('#stacks').getByLabel(view, { exact: true }).check({ force: true });
      await settled(tab);
      assert.ok((await tab.locator('#stacks .readout .n').getAttribute('title')).startsWith(wanted.toLocaleString('en-US')), view);
    }
  }));

  test('every view holds the same bytes', () => open('full', async (tab, model) => {
    const functions = () => tab.locator('#stacks table').last().textContent();
    const asked = await functions();
    for (const view of ['Bottom up', 'By module', 'By thread', 'Top down']) {
      await tab.locator('#stacks').getByLabel(view, { exact: true }).check({ force: true });
      await settled(tab);
      assert.equal(await tab.locator('#stacks .readout .n').getAttribute('title'), exact(total(model, 0)), view);
      assert.equal(await functions(), asked, `${view}: what a function asks for itself is no matter of the view`);
    }
    const threads = await tab.locator('#stacks select option').evaluateAll((options) => options.slice(1).map((option) => option.value));
    let sum = 0;
    for (const thread of threads) {
      await tab.locator('#stacks select').selectOption(thread);
      await settled(tab);
      sum += Number((await tab.locator('#stacks .readout .n').getAttribute('title')).replace(/\D/g, ''));
    }
    assert.equal(sum, total(model, 0), 'threads add up');
  }));

  test('code without a symbol is module and offset', () => open('full', async (tab) => {
    await tab.getByLabel('Find').fill('libpages.so.3+0x');
    assert.match(await tab.textContent('#stacks .found'), /^in /);
  }));

  test('functions add up', () => open('full', async (tab, model) => {
    await tab.getByRole('button', { name: /Show all \d+ functions/ }).click();
    const own = (await titles(tab, '#stacks tbody td:nth-child(2)')).map((title) => Number(title.replace(/\D/g, '')));
    assert.equal(own.reduce((sum, bytes) => sum + bytes, 0), total(model, 0));
  }));

  function depth(model, node) {
    let levels = 0;
    for (let here = node; here !== 0; here = model.flame.parent[here]) levels += 1;
    return levels;
  }
});

describe('findings', PARALLEL, () => {
  test('all are listed, the first is open, with advice and stack', () => open('full', async (tab, model) => {
    assert.equal(await tab.locator('.findings > li').count(), model.findings.length);
    const first = tab.locator('.findings > li').first();
    assert.ok(await first.getByText(model.findings[0].advice.slice(0, 30)).isVisible());
    const frame = model.frames[model.findings[0].stacks[0].frames[0]].label;
    assert.ok(await first.locator('.stack').getByText(frame, { exact: true }).first().isVisible());
    const shown = await titles(tab, '.findings > li:first-child summary');
    const cost = model.findings[0].costs.find((row) => row.allocator === model.findings[0].basis);
    assert.ok([cost.peak_bytes, cost.total_bytes].filter(Boolean).every((bytes) => shown.includes(exact(bytes))), `${shown}`);
  }));

  test('each says how to try it, and what trying it gave', () => open('full', async (tab, model) => {
    const all = tab.locator('.findings > li');
    assert.equal(await all.nth(0).locator('.saved').innerText(), model.findings[0].saved);
    assert.match(model.findings[0].saved, /^Replayed so on glibc: 1\.00 MiB less at the peak .*, 10 requests fewer\.$/);
    const commands = model.findings.map((finding) => finding.what_if).filter(Boolean);
    assert.deepEqual(commands, commands.map((_, index) => `heaplab what-if app.heaplab --fix ${index + 1}`));
    assert.ok(commands.length > 1);
    assert.equal(await tab.locator('.findings .try').count(), commands.length);
    assert.equal(await tab.locator('.findings .saved').count(), 1);
    assert.equal(await all.nth(0).locator('.try code').innerText(), commands[0]);
  }));

  test('the sizes of one mistake stand in one table, with their parts of the saving', () => open('full', async (tab, model) => {
    const index = model.findings.findIndex((finding) => finding.sizes.length > 1);
    const { sizes, saving, title } = model.findings[index];
    assert.ok(title.includes('4,104 and 1,032 bytes'), title);
    const sum = sizes.reduce((bytes, size) => bytes + size.saving_peak_bytes, 0);
    assert.equal(sum, saving.peak_bytes);
    const finding = tab.locator('.findings > li').nth(index);
    if (index > 0) await finding.locator('summary').first().click();
    const rows = await finding.locator('table').filter({ hasText: 'Its sizes' }).locator('tbody tr').allTextContents();
    assert.equal(rows.length, sizes.length);
    const box = await finding.locator('.scroll').filter({ hasText: 'Its sizes' }).evaluate((node) => [node.scrollWidth, node.clientWidth]);
    assert.ok(box[0] <= box[1], `on a laptop all columns are in sight: ${box}`);
    assert.match(await finding.locator('.advice .n').first().textContent(), /^[\d,]+ -> [\d,]+$/, 'what a size becomes stays on one line');
    assert.match(rows[0], /^4,104 B5,120 B4,096 B/);
  }));

  test('filters by kind and by allocator', () => open('full', async (tab, model) => {
    const leaks = model.findings.filter((finding) => finding.kind === 'leak').length;
    assert.ok(leaks > 0 && leaks < model.findings.length, 'the sample has leaks among others');
    await tab.getByLabel(/^Live at end/).check({ force: true });
    assert.equal(await tab.locator('.findings > li').count(), leaks);
    await tab.getByLabel(/^All /).check({ force: true });
    const name = model.findings.flatMap((finding) => finding.costs)[0].allocator;
    const there = model.findings.filter((finding) => finding.costs.some((cost) => cost.allocator === name)).length;
    await tab.locator('#findings').getByLabel(name, { exact: true }).check({ force: true });
    assert.equal(await tab.locator('.findings > li').count(), there);
  }));

  test('open and close by key', () => open('full', async (tab) => {
    const details = tab.locator('.findings details').first();
    await details.locator('summary').first().focus();
    await tab.keyboard.press('Enter');
    assert.equal(await details.evaluate((node) => node.open), false);
  }));
});

describe('tables', PARALLEL, () => {
  test('columns sort both ways and say so', () => open('full', async (tab, model) => {
    const table = tab.locator('#sizes table').nth(1);
    const request = table.getByRole('columnheader', { name: 'Request' });
    await request.getByRole('button').click();
    assert.equal(await request.getAttribute('aria-sort'), 'descending');
    const largest = Math.max(...model.sizes.whole.rows.map((row) => row.request));
    assert.equal(await table.locator('tbody tr').first().locator('td').nth(1).textContent(), `${largest.toLocaleString('en-US')} B`);
    await request.getByRole('button').click();
    assert.equal(await request.getAttribute('aria-sort'), 'ascending');
    const smallest = Math.min(...model.sizes.whole.rows.map((row) => row.request));
    assert.equal(await table.locator('tbody tr').first().locator('td').nth(1).textContent(), `${smallest.toLocaleString('en-US')} B`);
  }));

  test('the rest of a long table is one button away', () => open('full', async (tab, model) => {
    const block = tab.locator('#sizes .table-block').nth(1);
    await block.getByRole('button', { name: /^Show all/ }).click();
    assert.equal(await block.locator('tbody tr').count(), model.sizes.whole.rows.length);
  }));

  test('sizes at peak and in the whole run are told apart', () => open('full', async (tab, model) => {
    const first = () => tab.locator('#sizes table').nth(1).locator('tbody tr').first().textContent();
    const count = (rows) => rows[0].count.toLocaleString('en-US');
    assert.ok((await first()).includes(count(model.sizes.whole.rows)));
    await tab.locator('#sizes').getByLabel('Live at peak').check({ force: true });
    assert.ok((await first()).includes(count(model.sizes.peak.rows)));
  }));

  test('slop by allocator is the model’s', () => open('full', async (tab, model) => {
    const shown = await titles(tab, '#slop table:first-of-type tbody');
    for (const row of model.slop) assert.ok(shown.includes(exact(row.peak.usable_bytes - row.peak.requested_bytes)), row.allocator);
  }));

  test('what is live at the end adds up', () => open('full', async (tab, model) => {
    const bytes = (await titles(tab, '#end tbody td:first-child')).map((title) => Number(title.replace(/\D/g, '')));
    assert.equal(bytes.reduce((sum, own) => sum + own, 0), model.totals.end_bytes);
  }));

  test('marks, processes and threads', () => open('full', async (tab, model) => {
    const marks = await titles(tab, '#time .table-block');
    for (const mark of model.timeline.marks) assert.ok(marks.includes(exact(mark.live_bytes)), mark.name);
    const about = await tab.textContent('#about');
    assert.ok(about.includes(`no: ${model.processes[1].refused}`));
    assert.ok(about.includes(model.threads[1].name));
    const frees = await tab.$$eval('#about table:has(caption) tbody td:nth-child(4)', (cells) => cells.map((cell) => cell.textContent));
    assert.ok(frees.includes(model.threads[0].frees.toLocaleString('en-US')));
  }));

  test('lifetimes count every object that died', () => open('full', async (tab, model) => {
    const objects = await tab.$$eval('#lifetimes tbody td:nth-child(2)', (cells) => cells.map((cell) => Number(cell.textContent.replace(/\D/g, '') || 0)));
    assert.equal(objects.reduce((sum, own) => sum + own, 0), model.totals.frees);
  }));
});

describe('replay', PARALLEL, () => {
  test('an earlier replay stands below the last one, with its own verdict and date', () => open('full', async (tab, model) => {
    const [old] = model.earlier_replays;
    assert.equal(model.earlier_replays.length, 1);
    const section = tab.locator('#replay .earlier-replay');
    assert.match(await section.locator('h3').first().textContent(), /^An earlier replay, 2025-10-09 08:55 UTC$/);
    const text = await section.textContent();
    assert.ok(old.verdicts.every((verdict) => text.includes(verdict)), text);
    assert.match(text, /It measured space of glibc and tcmalloc; time of glibc\. .* measured again: space of glibc; time of glibc/);
    assert.match(await tab.locator('#replay-body > h3').first().textContent(), /^The last replay, 2025-10-09 09:03 UTC$/);
  }));

  test('ratios stand on their side of the line, with intervals and words', () => open('full', async (tab, model) => {
    const plots = tab.locator('.ratios');
    for (const [index, key] of ['space_ratio', 'time_ratio'].entries()) {
      const rows = plots.nth(index).locator('tbody tr');
      for (const [at, heap] of model.replay.heaps.entries()) {
        const ratio = heap[key];
        if (!ratio) continue;
        const row = rows.nth(at);
        const dot = parseFloat(await row.locator('circle').getAttribute('cx'));
        assert.equal(dot < 50, ratio.value < 1, heap.name);
        assert.ok((await row.textContent()).includes(`${ratio.value.toFixed(2)}×`));
        assert.ok((await row.textContent()).includes(ratio.range), ratio.range);
        assert.equal(await row.locator('.reach').count(), ratio.high > ratio.low ? 3 : 0);
      }
    }
    assert.ok((await tab.textContent('#replay')).includes('no difference shown'));
    for (const verdict of model.replay.verdicts) assert.ok(await tab.getByText(verdict).isVisible());
    assert.ok(await tab.getByText('SIGSEGV').isVisible(), 'a heap that failed is named');
  }));
});

describe('a heap that collects', PARALLEL, () => {
  test('pointing and arrows tell each collection, in a chart as wide as there is room', () => {
    const look = async (tab, model) => {
      const { collections } = model.heap_pages[0];
      const figure = tab.locator('figure.collections').first();
      const chart = figure.locator('svg.collection-chart');
      await chart.scrollIntoViewIfNeeded();
      const box = await chart.boundingBox();
      assert.ok(box.width > 250 && box.width <= (await tab.locator('#replay').boundingBox()).width, `${box.width}`);
      await tab.mouse.move(box.x + box.width - 12, box.y + 60);
      const said = () => figure.locator('.readout').textContent();
      const last = collections.number.length - 1;
      assert.match(await said(), new RegExp(`^Collection ${collections.number[last]}, ${collections.kind[last]} \\(${collections.cause[last]}\\), after 4,000 births, pause 6\\.00 ms: committed 1\\.00 MiB`));
      await chart.focus();
      await tab.keyboard.press('Home');
      assert.match(await said(), /^Collection 1, scavenge \(allocation\)/);
      const categories = tab.locator('figure.collections').nth(1);
      await categories.locator('svg').first().focus();
      await tab.keyboard.press('End');
      assert.match(await categories.locator('.readout').textContent(), /128 KiB in blocks of 2048 bytes and more, 48 B in blocks of 24 to 63 bytes/);
    };
    return Promise.all([open('collected', look), open('collected', look, { viewport: PHONE })]);
  });

  test('pointing at a page tells its sizes and what lies there', () => open('collected', async (tab) => {
    const strip = tab.locator('svg.strip').first();
    await strip.scrollIntoViewIfNeeded();
    const box = await strip.boundingBox();
    const readout = tab.locator('.strips + .readout').first();
    for (const [share, there] of [[0.25, 'blocks'], [0.75, '(free, 2048 bytes and more)']]) {
      await tab.mouse.move(box.x + box.width * share, box.y + box.height / 2);
      const said = await readout.textContent();
      assert.ok(said.includes('page 1: 256 KiB, 128 KiB in blocks; (free, 2048 bytes and more) 128 KiB; (header) 256 B') && said.endsWith(`mostly ${there}.`), said);
    }
    assert.ok(await tab.getByText('128 KiB in one hole stay unused.').isVisible());
  }));
});

describe('two heaps that collect', PARALLEL, () => {
  test('stand side by side at one moment, a category in one colour', () => open('collected_twice', async (tab) => {
    const compared = tab.locator('table', { hasText: 'The heaps at this moment' });
    assert.deepEqual(await compared.locator('tbody tr td:first-child').allTextContents(), ['v8:manyat the end', 'v8:legacyat the end']);
    assert.equal(await tab.locator('svg.strip').count(), 2);
    const slider = tab.locator('.moment-slider input');
    assert.equal(await slider.getAttribute('max'), '1', 'both heaps have the same moments');
    await slider.focus();
    await tab.keyboard.press('Home');
    assert.equal(await tab.locator('.moment-slider output').textContent(), 'after 2,000 births');
    assert.match(await compared.locator('tbody tr').first().textContent(), /after collection 2 /);
    const colour = async (node) => [...(await node.getAttribute('class')).split(' ')].find((name) => name.startsWith('free-'));
    const largest = tab.locator('figure.collections figcaption .swatch-key', { hasText: '2048 bytes and more' }).first().locator('rect');
    const strip = tab.locator('svg.strip').first().locator('rect').last();
    assert.equal(await colour(strip), await colour(largest));
  }));
});

describe('recordings with little in them', PARALLEL, () => {
  test('say in words what is not there', () => open('bare', async (tab) => {
    const words = { '#stacks': 'No stacks were recorded', '#replay': 'has not been replayed', '#time': 'was not sampled', '#end': 'everything that was allocated was freed', '#figures': 'not measured' };
    for (const [section, text] of Object.entries(words)) assert.ok((await tab.textContent(section)).includes(text), section);
  }));

  test('a recording without events is a page too', () => open('empty', async (tab) => {
    assert.ok((await tab.textContent('#lead')).includes('asked for no memory'));
    assert.ok((await tab.textContent('#findings')).includes('Nothing was found'));
  }));
});

describe('large recordings', PARALLEL, () => {
  test('say what was left out or taken together', () => open('large', async (tab, model) => {
    assert.ok(model.flame.merged_nodes > 0);
    assert.ok((await tab.textContent('#stacks')).includes(`${model.flame.merged_nodes.toLocaleString('en-US')} places too small to see`));
    assert.ok(model.left_out.length > 0);
    for (const sentence of model.left_out) assert.ok((await tab.textContent('#about')).includes(sentence));
  }));
});

describe('for everyone', PARALLEL, () => {
  for (const name of ['full', 'bare', 'empty']) {
    test(`no sideways scrolling on a phone: ${name}`, () => open(name, async (tab) => {
      await tab.$$eval('details', (all) => all.forEach((details) => { details.open = true; }));
      await settled(tab);
      const wide = await tab.evaluate(() => document.scrollingElement.scrollWidth);
      assert.ok(wide <= PHONE.width, `${wide} px`);
    }, { viewport: PHONE }));
  }

  for (const colorScheme of ['light', 'dark']) {
    test(`text stands out: ${colorScheme}`, () => open('full', async (tab) => {
      assert.deepEqual(await tab.evaluate(contrastFaults), []);
    }, { colorScheme }));
  }

  test('colours follow the system, and a choice of one’s own lasts', () => open('full', async (tab) => {
    const paper = () => tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const button = tab.locator('#theme');
    const dark = await paper();
    await button.click();
    assert.equal(await button.getAttribute('aria-label'), 'Colours: light');
    const light = await paper();
    assert.notEqual(light, dark);
    await tab.reload();
    await settled(tab);
    assert.equal(await paper(), light);
    await button.click();
    assert.equal(await paper(), dark);
  }, { colorScheme: 'dark' }));

  test('every stop of the keyboard is seen', () => open('full', async (tab) => {
    assert.deepEqual(await focusFaults(tab), []);
  }));

  test('landmarks, headings, captions and labels', () => open('full', async (tab) => {
    assert.deepEqual(await tab.evaluate(structureFaults), []);
  }));

  test('paper is white and has no buttons', () => open('full', async (tab) => {
    await tab.emulateMedia({ media: 'print', colorScheme: 'dark' });
    assert.equal(await tab.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)');
    assert.equal(await tab.locator('.bar').isVisible(), false);
    assert.equal(await tab.locator('fieldset:visible').count(), 0);
    assert.ok(await tab.locator('.findings > li').first().isVisible());
  }));
});
