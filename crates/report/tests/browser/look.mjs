// Takes pictures of a page: node look.mjs PAGE.html FOLDER [NAME]. docs/page.png is the one called readme, of a recording of
// `sqlite3 :memory:`.
import { openBrowser } from './browser.mjs';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';

const [page, folder, name = 'page'] = process.argv.slice(2);
const browser = await openBrowser();
const views = [['laptop-light', 1366, 900, 'light', 1], ['laptop-dark', 1366, 900, 'dark', 1], ['readme', 1366, 1240, 'light', 1], ['phone', 390, 844, 'light', 2], ['phone-dark', 390, 844, 'dark', 2]];
for (const [view, width, height, colorScheme, deviceScaleFactor] of views) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, deviceScaleFactor });
  const tab = await context.newPage();
  tab.on('pageerror', (error) => console.error(error));
  tab.on('console', (message) => console.error(message.text()));
  await tab.goto(pathToFileURL(page).href);
  await tab.screenshot({ path: join(folder, `${name}-${view}.png`) });
  await tab.screenshot({ path: join(folder, `${name}-${view}-all.png`), fullPage: true });
  await context.close();
}
await browser.close();
