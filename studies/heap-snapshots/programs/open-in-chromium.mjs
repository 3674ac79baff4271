// Opens snapshots in the DevTools that an installed Chromium brings along, as the Memory panel does when a user loads a file, and prints nodes and classes.
//
//   node programs/open-in-chromium.mjs FILE.heapsnapshot ... [--browser chromium]
//
// Spoken to over its debugging pipe: no port, no WebSocket. The file goes through an <input> of the DevTools page, as a user's does, to
// `HeapProfileHeader.loadFromFile`; what the page's heap snapshot worker then answers is printed.

import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {once} from 'node:events';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {parseArgs} from 'node:util';

const {positionals: files, values: {browser}} = parseArgs({
  allowPositionals: true,
  options: {browser: {type: 'string', default: 'chromium'}},
});
if (!files.length) {
  console.error('usage: open-in-chromium.mjs FILE.heapsnapshot ... [--browser chromium]');
  process.exit(2);
}

const LOAD = `(async () => {
  const {HeapSnapshotView} = await import('devtools://devtools/bundled/panels/profiler/profiler.js');
  const {HeapSnapshotModel} = await import('devtools://devtools/bundled/models/heap_snapshot/heap_snapshot.js');
  const type = new HeapSnapshotView.HeapSnapshotProfileType({});
  const header = new HeapSnapshotView.HeapProfileHeader(null, type);
  const failure = await header.loadFromFile(document.getElementById('heaplab-file').files[0]);
  if (failure) { throw new Error(failure.message ?? String(failure)); }
  const snapshot = await header.loadPromise;
  const classes = Object.values(await snapshot.aggregatesWithFilter(new HeapSnapshotModel.NodeFilter()));
  const sum = field => classes.reduce((sum, each) => sum + each[field], 0);
  return JSON.stringify({nodes: snapshot.staticData.nodeCount, classes: classes.length, objects: sum('count'), shallow_bytes: sum('self'), total_bytes: snapshot.totalSize});
})()`;

const profile = mkdtempSync(path.join(tmpdir(), 'heaplab-chromium-'));
const chromium = spawn(browser, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--remote-debugging-pipe',
  `--user-data-dir=${profile}`, 'about:blank'], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
const [input, output] = [chromium.stdio[3], chromium.stdio[4]];
const waiting = new Map();
let numbers = 0, rest = '';
output.setEncoding('utf8');
output.on('data', data => {
  const messages = (rest + data).split('\0');
  rest = messages.pop();
  for (const message of messages.map(text => JSON.parse(text))) {
    waiting.get(message.id)?.(message);
  }
});

function call(method, params = {}, sessionId) {
  const id = ++numbers;
  input.write(JSON.stringify({id, method, params, sessionId}) + '\0');
  return new Promise((resolve, reject) => waiting.set(id, message => message.error ? reject(new Error(`${method}: ${message.error.message}`)) : resolve(message.result)));
}

async function load(file) {
  const {targetId} = await call('Target.createTarget', {url: 'devtools://devtools/bundled/devtools_app.html'});
  const {sessionId} = await call('Target.attachToTarget', {targetId, flatten: true});
  const evaluate = async expression => {
    const {result, exceptionDetails} = await call('Runtime.evaluate', {expression, awaitPromise: true}, sessionId);
    if (exceptionDetails) {
      throw new Error(`${file}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    }
    return result;
  };
  while ((await evaluate('document.readyState')).value !== 'complete') {
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  const {objectId} = await evaluate(`(() => { const input = document.createElement('input'); input.type = 'file'; input.id = 'heaplab-file'; document.documentElement.append(input); return input; })()`);
  await call('DOM.setFileInputFiles', {files: [path.resolve(file)], objectId}, sessionId);
  console.log(`${file}: ${(await evaluate(LOAD)).value}`);
  await call('Target.closeTarget', {targetId});
}

try {
  console.log((await call('Browser.getVersion')).product);
  for (const file of files) {
    await load(file);
  }
} finally {
  chromium.kill();
  await once(chromium, 'exit');
  rmSync(profile, {recursive: true, force: true, maxRetries: 5});
}
