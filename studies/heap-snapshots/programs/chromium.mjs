// A page with detached DOM in a headless Chromium, and the snapshots of its heap.
//
//   node programs/chromium.mjs OUT.heapsnapshot [--times N] [--browser chromium]

import {createWriteStream} from 'node:fs';
import {once} from 'node:events';
import {parseArgs} from 'node:util';
import {withBrowser} from './browser.mjs';

const {positionals: [out], values: {times, browser}} = parseArgs({
  allowPositionals: true,
  options: {times: {type: 'string', default: '1'}, browser: {type: 'string', default: 'chromium'}},
});

const PAGE = `
  class Widget { constructor(node) { this.node = node; this.listener = () => this.node; node.addEventListener('click', this.listener); } }
  window.widgets = [];
  window.iframes = [];
  function grow(count) {
    for (let number = 0; number < count; ++number) {
      const tree = document.createElement('div');
      tree.id = 'tree' + number;
      tree.innerHTML = '<ul class="list"><li>one</li><li><b>two</b></li></ul><img alt="x"><custom-element></custom-element>';
      if (number % 2) { document.body.append(tree); }
      if (number % 3) { widgets.push(new Widget(tree.querySelector('li'))); }
    }
  }
  customElements.define('custom-element', class extends HTMLElement {});
  grow(60);
  const frame = document.createElement('iframe');
  frame.srcdoc = '<p>inner</p>';
  document.body.append(frame);
  frame.onload = () => { iframes.push(frame.contentWindow); frame.remove(); document.title = 'ready'; };
`;

await withBrowser(browser, async ({call, listen}) => {
  const {targetInfos} = await call('Target.getTargets');
  const {sessionId} = await call('Target.attachToTarget', {targetId: targetInfos.find(info => info.type === 'page').targetId, flatten: true});
  const evaluate = expression => call('Runtime.evaluate', {expression}, sessionId);
  await evaluate(PAGE);
  while ((await evaluate('document.title')).result.value !== 'ready') {
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  for (let time = 1; time <= Number(times); ++time) {
    if (time > 1) {
      await evaluate(`grow(20); widgets.splice(0, 5); 0`);
    }
    const file = createWriteStream(time === 1 ? out : out.replace(/\.heapsnapshot$/, `.${time}.heapsnapshot`));
    const stop = listen('HeapProfiler.addHeapSnapshotChunk', ({chunk}) => file.write(chunk));
    await call('HeapProfiler.takeHeapSnapshot', {reportProgress: false}, sessionId);
    stop();
    file.end();
    await once(file, 'finish');
  }
});
