// Opens snapshots in the DevTools that an installed Chromium brings along, as the Memory panel does when a user loads a file, and prints nodes and classes.
//
//   node programs/open-in-chromium.mjs FILE.heapsnapshot ... [--browser chromium]
//
// The file goes through an <input> of the DevTools page, as a user's does, to
// `HeapProfileHeader.loadFromFile`; what the page's heap snapshot worker then answers is printed.

import path from 'node:path';
import {parseArgs} from 'node:util';
import {withBrowser} from './browser.mjs';

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
  // The page is there before its language is, which is fetched.
  let type;
  while (!type) {
    try {
      type = new HeapSnapshotView.HeapSnapshotProfileType({});
    } catch (error) {
      if (!error.message.startsWith('No locale data')) { throw error; }
      await new Promise(resolve => setTimeout(resolve, 50));
    }
  }
  const header = new HeapSnapshotView.HeapProfileHeader(null, type);
  const failure = await header.loadFromFile(document.getElementById('heaplab-file').files[0]);
  if (failure) { throw new Error(failure.message ?? String(failure)); }
  const snapshot = await header.loadPromise;
  const classes = Object.values(await snapshot.aggregatesWithFilter(new HeapSnapshotModel.NodeFilter()));
  const sum = field => classes.reduce((sum, each) => sum + each[field], 0);
  return JSON.stringify({nodes: snapshot.staticData.nodeCount, classes: classes.length, objects: sum('count'), shallow_bytes: sum('self'), total_bytes: snapshot.totalSize});
})()`;

async function load(call, file) {
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

await withBrowser(browser, async ({call}) => {
  console.log((await call('Browser.getVersion')).product);
  for (const file of files) {
    await load(call, file);
  }
});
