// node speedscope.mjs FILE CHROMIUM: loads the file into speedscope and prints the titles and tables that it shows for each of
// its profiles.
import { chromium } from 'playwright-core';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const root = dirname(createRequire(import.meta.url).resolve('speedscope/package.json'));
// A busy machine may take long for anything.
const PATIENCE_MS = 600_000;
const browser = await chromium.launch({
  timeout: PATIENCE_MS,
  executablePath: process.argv[3],
  args: ['--no-sandbox', '--allow-file-access-from-files', '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader'],
});
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const errors = [];
  page.on('pageerror', error => errors.push(error.message));
  page.on('dialog', dialog => { errors.push(dialog.message()); dialog.dismiss(); });
  await page.goto(pathToFileURL(join(root, 'dist/release/index.html')).href);
  await page.setInputFiles('input[type=file]', process.argv[2]);
  await page.getByText('Left Heavy').waitFor();
  const views = [];
  for (;;) {
    // 3: the table of functions; n: the next profile of the file.
    await page.keyboard.press('3');
    await page.getByText('Symbol Name').waitFor();
    await page.waitForFunction(() => document.body.innerText.includes('%)'));
    const text = await page.innerText('body');
    views.push(text);
    // A file of one profile has no numbers.
    const [, number, count] = text.match(/\((\d+)\/(\d+)\)/) ?? [];
    if (number === count) break;
    await page.keyboard.press('n');
    await page.getByText(`(${Number(number) + 1}/`).waitFor();
  }
  console.log(JSON.stringify({ title: await page.title(), errors, views }));
} finally {
  await browser.close();
}
