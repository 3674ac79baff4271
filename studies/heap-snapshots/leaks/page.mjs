// A page whose dialogs are removed and stay in a list, and three snapshots of it.
//
//   node leaks/page.mjs FOLDER [--browser chromium]

import {createWriteStream} from 'node:fs';
import {once} from 'node:events';
import path from 'node:path';
import {parseArgs} from 'node:util';
import {withBrowser} from '../programs/browser.mjs';

const {positionals: [folder], values: {browser}} = parseArgs({
  allowPositionals: true,
  options: {browser: {type: 'string', default: 'chromium'}},
});

const PAGE = `
  window.dialogs = {opened: []};
  window.open60 = () => {
    for (let number = 0; number < 60; ++number) {
      const dialog = document.createElement('section');
      dialog.className = 'dialog';
      dialog.innerHTML = '<h1>Order</h1><ul>' + '<li>line</li>'.repeat(20) + '</ul>';
      document.body.append(dialog);
      dialogs.opened.push(dialog);
    }
  };
  window.closeAll = () => document.querySelectorAll('.dialog').forEach(dialog => dialog.remove());
  open60(); closeAll(); 0
`;

await withBrowser(browser, async ({call, listen}) => {
  const {targetInfos} = await call('Target.getTargets');
  const {sessionId} = await call('Target.attachToTarget', {targetId: targetInfos.find(info => info.type === 'page').targetId, flatten: true});
  const evaluate = expression => call('Runtime.evaluate', {expression, awaitPromise: true}, sessionId);
  const take = async moment => {
    await evaluate('new Promise(resolve => setTimeout(resolve, 100))');
    const file = createWriteStream(path.join(folder, moment + '.heapsnapshot'));
    const stop = listen('HeapProfiler.addHeapSnapshotChunk', ({chunk}) => file.write(chunk));
    await call('HeapProfiler.takeHeapSnapshot', {reportProgress: false}, sessionId);
    stop();
    file.end();
    await once(file, 'finish');
  };
  await call('HeapProfiler.enable', {}, sessionId);
  await evaluate(PAGE);
  await take('base');
  await evaluate('open60(); 0');
  await take('target');
  await evaluate('closeAll(); 0');
  await take('final');
});
console.log(JSON.stringify({names: ['dialogs', 'opened'], class: 'Detached <section>'}));
