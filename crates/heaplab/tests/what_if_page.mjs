// The page of a what-if in a real browser: every section is filled, nothing fails, and the words are those of the data.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { openBrowser, PATIENCE_MS } from '../../report/tests/browser/browser.mjs';

let browser;
before(async () => { browser = await openBrowser(); });
after(() => browser?.close());

const [timed, space] = process.env.HEAPLAB_PAGES.split(':');

for (const [name, file] of [['timed', timed], ['space only', space]]) {
  test(`a what-if, ${name}, is drawn on a desk and on a phone`, { timeout: PATIENCE_MS }, async () => {
    for (const [width, height] of [[1366, 900], [390, 844]]) {
      const tab = await browser.newPage({ viewport: { width, height } });
      const errors = [];
      tab.on('pageerror', (error) => errors.push(String(error)));
      tab.on('console', (message) => { if (message.type() === 'error') errors.push(message.text()); });
      tab.on('request', (request) => { if (!request.url().startsWith('file:') && !request.url().startsWith('data:')) errors.push(request.url()); });
      await tab.goto(pathToFileURL(file).href);
      await tab.waitForSelector('html[data-ready]', { state: 'attached' });
      const data = JSON.parse(await tab.textContent('#data'));
      const text = (selector) => tab.locator(selector).innerText();
      assert.equal(await text('#lead'), data.verdict[0]);
      for (const id of ['summary', 'space', 'time', 'asked', 'about']) {
        const body = await text(`#${id}-body`);
        assert.ok(body.length > 30 && !body.includes('could not be drawn'), `${id}: ${body}`);
      }
      assert.ok((await text('#facts')).includes(data.bundle) && data.bundle.endsWith('.what-if.heaplab'));
      assert.ok((await text('#summary-body')).includes('every request is 8 bytes less'));
      for (const heap of data.heaps) {
        const row = tab.locator('#space-body .table-block tbody tr').filter({ hasText: heap.name });
        const exact = await row.locator('.n').evaluateAll((nodes) => nodes.map((node) => node.title.replace('−', '-')));
        const bytes = (value) => `${value.toLocaleString('en-US')} bytes`;
        const { before: was, after: would } = heap;
        assert.deepEqual(exact, [was.peak_bytes, would.peak_bytes, would.peak_bytes - was.peak_bytes].map(bytes));
        assert.equal(await row.locator('svg.spark').count(), 2);
      }
      const whiskers = await tab.locator('#time-body svg.whisker').count();
      assert.equal(whiskers, name === 'timed' ? data.heaps.filter((heap) => heap.time_ratio).length : 0);
      const ids = await tab.evaluate(() => [...document.querySelectorAll('[id]')].map((node) => node.id));
      assert.equal(new Set(ids).size, ids.length, 'an id is one element');
      assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${width} pixels are enough`);
      assert.deepEqual(errors, []);
      await tab.close();
    }
  });
}
