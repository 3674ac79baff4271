// Bundles the heap snapshot worker of Chrome DevTools into one module that Node can import.
//
// Why: the worker is what answers in DevTools' Memory panel, and it is published as TypeScript that expects a browser build.
// Only one of its imports does not exist in the package (the generated list of locales); it is replaced, because the worker
// uses it for the texts of its progress bar alone. Nothing else is changed. Run by devtools.mjs when the bundle is older than the package.

import {existsSync, mkdirSync, renameSync, statSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import path from 'node:path';

const folder = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const frontend = path.join(folder, 'node_modules/chrome-devtools-frontend');
const bundle = path.join(folder, 'node_modules/.heaplab/devtools.mjs');

/** The path of the bundle, made if it is not there yet. */
export async function bundled() {
  const manifest = path.join(frontend, 'package.json');
  if (!existsSync(manifest)) {
    throw new Error(`chrome-devtools-frontend is not installed: npm ci --prefix ${folder}`);
  }
  const recipe = fileURLToPath(import.meta.url);
  if (existsSync(bundle) && [manifest, recipe].every(file => statSync(file).mtimeMs <= statSync(bundle).mtimeMs)) {
    return bundle;
  }
  const {build} = await import('esbuild');
  mkdirSync(path.dirname(bundle), {recursive: true});
  // Two judges may start at once: each writes its own file, and the name is taken by a rename.
  const unfinished = `${bundle}.${process.pid}.mjs`;
  await build({
    entryPoints: [path.join(frontend, 'front_end/entrypoints/heap_snapshot_worker/heap_snapshot_worker.ts')],
    outfile: unfinished,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'error',
    plugins: [{
      name: 'no-locales',
      setup(build) {
        build.onResolve({filter: /\/locales\.js$/}, () => ({path: 'locales', namespace: 'stub'}));
        build.onLoad({filter: /.*/, namespace: 'stub'}, () => ({contents: `
          export const LOCALES = ['en-US'];
          export const BUNDLED_LOCALES = ['en-US'];
          export const DEFAULT_LOCALE = 'en-US';
          export const REMOTE_FETCH_PATTERN = '';
          export const LOCAL_FETCH_PATTERN = '';
        `}));
      },
    }],
  });
  renameSync(unfinished, bundle);
  return bundle;
}
