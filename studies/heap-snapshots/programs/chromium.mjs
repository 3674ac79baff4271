// A page with detached DOM in a headless Chromium, and the snapshots of its heap.
//
//   node programs/chromium.mjs OUT.heapsnapshot [--times N] [--browser chromium]
//
// Spoken to over its debugging pipe: no port, no WebSocket.

import {spawn} from 'node:child_process';
import {createWriteStream, mkdtempSync, rmSync} from 'node:fs';
import {once} from 'node:events';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {parseArgs} from 'node:util';

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

const profile = mkdtempSync(path.join(tmpdir(), 'heaplab-chromium-'));
const chromium = spawn(browser, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--remote-debugging-pipe',
  `--user-data-dir=${profile}`, 'about:blank'], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
const [input, output] = [chromium.stdio[3], chromium.stdio[4]];
const waiting = new Map();
const listeners = [];
let numbers = 0, rest = '';
output.setEncoding('utf8');
output.on('data', data => {
  const messages = (rest + data).split('\0');
  rest = messages.pop();
  for (const message of messages.map(text => JSON.parse(text))) {
    message.id ? waiting.get(message.id)(message) : listeners.forEach(listener => listener(message));
  }
});

function call(method, params = {}, sessionId) {
  const id = ++numbers;
  input.write(JSON.stringify({id, method, params, sessionId}) + '\0');
  return new Promise((resolve, reject) => waiting.set(id, message => message.error ? reject(new Error(`${method}: ${message.error.message}`)) : resolve(message.result)));
}

try {
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
    const take = message => message.method === 'HeapProfiler.addHeapSnapshotChunk' && file.write(message.params.chunk);
    listeners.push(take);
    await call('HeapProfiler.takeHeapSnapshot', {reportProgress: false}, sessionId);
    listeners.pop();
    file.end();
    await once(file, 'finish');
  }
} finally {
  chromium.kill();
  await once(chromium, 'exit');
  rmSync(profile, {recursive: true, force: true, maxRetries: 5});
}
