// How soon a page is there: node paint.mjs PAGE.html TIMES. Each opening is a new Chromium. Prints a line a measure, in ms
// since the navigation began; the last is from a chosen range to the frame that shows it.
import { openBrowser } from './browser.mjs';
import { pathToFileURL } from 'node:url';

const [page, times] = process.argv.slice(2);
const measures = { 'first paint': [], 'all sections drawn': [], 'ranges can be chosen': [], 'a range, chosen to drawn': [] };
for (let time = 0; time < Number(times); time += 1) {
  const browser = await openBrowser();
  const tab = await browser.newPage({ viewport: { width: 1366, height: 900 } });
  await tab.addInitScript(() => {
    window.seen = {};
    new MutationObserver((_, observer) => {
      for (const name of ['ready', 'ranges']) if (document.documentElement?.dataset[name]) window.seen[name] ??= performance.now();
      if (window.seen.ranges) observer.disconnect();
    }).observe(document, { attributes: true, subtree: true, attributeFilter: ['data-ready', 'data-ranges'] });
  });
  await tab.goto(pathToFileURL(page).href);
  await tab.waitForFunction(() => window.seen.ranges && performance.getEntriesByName('first-contentful-paint').length > 0);
  const seen = await tab.evaluate(() => ({ ...window.seen, paint: performance.getEntriesByName('first-contentful-paint')[0].startTime }));
  measures['first paint'].push(seen.paint);
  measures['all sections drawn'].push(seen.ready);
  measures['ranges can be chosen'].push(seen.ranges);
  // The middle third of the run, chosen with the mouse.
  const chart = await tab.locator('#time svg.chart').boundingBox();
  await tab.mouse.move(chart.x + chart.width / 3, chart.y + 100);
  await tab.mouse.down();
  await tab.mouse.move(chart.x + (2 * chart.width) / 3, chart.y + 100, { steps: 2 });
  await tab.evaluate(() => {
    document.querySelector('#time svg.chart').addEventListener('pointerup', () => {
      const begun = performance.now();
      requestAnimationFrame(() => setTimeout(() => { window.drawn = performance.now() - begun; }));
    }, { capture: true, once: true });
  });
  await tab.mouse.up();
  await tab.waitForFunction(() => window.drawn && document.querySelector('#range h3'));
  measures['a range, chosen to drawn'].push(await tab.evaluate(() => window.drawn));
  await browser.close();
}
for (const [name, values] of Object.entries(measures)) console.log(`${name}: ${values.map((value) => value.toFixed(1)).join(' ')}`);
