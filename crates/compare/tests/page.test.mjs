// The page of a comparison in a real browser: every section is filled, nothing fails, the graph answers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { openBrowser, PATIENCE_MS } from '../../report/tests/browser/browser.mjs';

let browser;
before(async () => { browser = await openBrowser(); });
after(() => browser?.close());

test('every section of the comparison is drawn, on a desk and on a phone', { timeout: PATIENCE_MS }, async () => {
  for (const [width, height] of [[1366, 900], [390, 844]]) {
    const tab = await browser.newPage({ viewport: { width, height } });
    const errors = [];
    tab.on('pageerror', (error) => errors.push(String(error)));
    tab.on('console', (message) => { if (message.type() === 'error') errors.push(message.text()); });
    tab.on('request', (request) => { if (!request.url().startsWith('file:') && !request.url().startsWith('data:')) errors.push(request.url()); });
    await tab.goto(pathToFileURL(process.env.HEAPLAB_PAGE).href);
    await tab.waitForSelector('html[data-ready]', { state: 'attached' });
    const text = (selector) => tab.locator(selector).innerText();
    assert.match(await text('#lead'), /^After needs 225 KiB more at the peak \(\+23\.4 %\), because r_interpret holds 225 KiB more\./);
    for (const id of ['summary', 'time', 'findings', 'flame', 'functions', 'stacks', 'sizes', 'about']) {
      const body = await text(`#${id}-body`);
      assert.ok(body.length > 40 && !body.includes('could not be drawn'), `${id}: ${body}`);
    }
    assert.equal(await tab.locator('#time-body svg.chart').count(), 2);
    const shares = await tab.locator('.share').allTextContents();
    assert.ok(shares.includes(' under −0.1 %') && !shares.some((share) => share.includes('<')), shares.join());
    const ids = await tab.evaluate(() => [...document.querySelectorAll('[id]')].map((node) => node.id));
    assert.equal(new Set(ids).size, ids.length, 'an id is one element');
    await tab.getByLabel('Shrank: asked for, bytes', { exact: true }).check({ force: true });
    assert.match(await text('#flame-body .readout'), /1\.09 GiB.* 2\.18 GiB before, 1\.09 GiB after \(−1\.09 GiB\)/);
    assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${width} pixels are enough`);
    assert.deepEqual(errors, []);
    await tab.close();
  }
});
