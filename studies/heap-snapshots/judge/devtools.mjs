// Opens a heap snapshot as DevTools does: its loader in this thread, the dominators in a second one.

import {createReadStream} from 'node:fs';
import {MessageChannel, Worker} from 'node:worker_threads';
import {pathToFileURL} from 'node:url';
import {bundled} from './bundle.mjs';

/** In every browser that DevTools runs in, and not in Node before 22. */
function withResolvers() {
  let resolve, reject;
  const promise = new this((yes, no) => [resolve, reject] = [yes, no]);
  return {promise, resolve, reject};
}
Promise.withResolvers ??= withResolvers;

/** The bytes of a chunk that the loader is given: what DevTools reads from a file at once. */
const CHUNK_BYTES = 10_000_000;

/** The snapshot in `file` as DevTools' JSHeapSnapshot. `report` takes what it would say on its console. */
export async function open(file, report = () => {}) {
  console.warn = report;
  const location = pathToFileURL(await bundled()).href;
  const {HeapSnapshotLoader} = await import(location);
  const loader = new HeapSnapshotLoader.HeapSnapshotLoader(undefined);
  // The loader keeps what it was not asked for yet: wait for it between chunks, as the file reader's callbacks do.
  for await (const chunk of createReadStream(file, {encoding: 'utf8', highWaterMark: CHUNK_BYTES})) {
    loader.write(chunk);
    await new Promise(setImmediate);
  }
  loader.close();
  await loader.parsingComplete;
  const {port1, port2} = new MessageChannel();
  const second = new Worker(`
    const {workerData} = require('node:worker_threads');
    Promise.withResolvers ??= ${withResolvers};
    import(workerData.location).then(({HeapSnapshot}) => new HeapSnapshot.SecondaryInitManager(workerData.port));
  `, {eval: true, workerData: {location, port: port2}, transferList: [port2]});
  const failed = new Promise((_, reject) => second.on('error', reject));
  try {
    return await Promise.race([loader.buildSnapshot(port1), failed]);
  } finally {
    port1.close();
    await second.terminate();
  }
}
