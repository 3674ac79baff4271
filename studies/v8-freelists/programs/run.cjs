'use strict';
// The programs that the study records: real tools at real work, on inputs that are installed beside
// them, a cache of parsed JSON, and Octane's benchmarks. `node programs/run.cjs NAME [TIMES]`.
// Nothing here depends on the clock or on chance, so that two runs allocate alike.
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const modules = path.join(__dirname, '..', 'node_modules');

// So many of the rules of ESLint, as source text: the input of the tools.
function sources(count) {
  const folder = path.join(modules, 'eslint', 'lib', 'rules');
  const files = fs.readdirSync(folder).filter(name => name.endsWith('.js')).sort().slice(0, count);
  return files.map(name => [name, fs.readFileSync(path.join(folder, name), 'utf8')]);
}

const programs = {
  // Checks the types of TypeScript's own interface against its library.
  tsc(times) {
    const ts = require('typescript');
    const folder = path.join(modules, 'typescript', 'lib');
    const roots = ['typescript.d.ts', 'protocol.d.ts', 'tsserverlibrary.d.ts'].slice(0, times);
    const options = { noEmit: true, types: [], target: ts.ScriptTarget.ES2020, lib: ['lib.es2020.d.ts'] };
    const program = ts.createProgram(roots.map(name => path.join(folder, name)), options);
    return ts.getPreEmitDiagnostics(program).length;
  },
  // Lints rules of ESLint with its recommended ones.
  eslint(times) {
    const { Linter } = require('eslint');
    const recommended = require('@eslint/js').configs.recommended;
    const linter = new Linter();
    let messages = 0;
    for (const [name, text] of sources(12 * times)) {
      const config = { rules: recommended.rules, env: { node: true, es2022: true }, parserOptions: { ecmaVersion: 2022 } };
      messages += linter.verify(text, config, name).length;
    }
    return messages;
  },
  // Compiles rules of ESLint down to old JavaScript.
  babel(times) {
    const babel = require('@babel/core');
    const presets = [[require.resolve('@babel/preset-env'), { targets: 'ie 11' }]];
    let bytes = 0;
    for (const [filename, text] of sources(5 * times)) {
      bytes += babel.transformSync(text, { presets, filename, babelrc: false, configFile: false }).code.length;
    }
    return bytes;
  },
  // Makes them small, all at once.
  terser(times) {
    const { minify } = require('terser');
    const wrapped = sources(8 * times).map(([, text]) => `(function (require, module) {${text}})();`);
    return minify(wrapped.join('\n'), { compress: { passes: 1 }, mangle: true }).then(result => result.code.length);
  },
  // Keeps the 200 documents that were asked for last, parsed; some are asked for often.
  'json-cache'(times) {
    const texts = [];
    for (let nth = 0; nth < 700; nth++) texts.push(JSON.stringify(document(nth)));
    const cache = new Map();
    const random = numbers(11);
    let found = 0;
    for (let request = 0; request < 500 * times; request++) {
      const key = random(2) === 0 ? random(700) : random(100);
      let parsed = cache.get(key);
      if (parsed === undefined) {
        parsed = JSON.parse(texts[key]);
        if (cache.size === 200) cache.delete(cache.keys().next().value);
      } else {
        cache.delete(key);
        found++;
      }
      cache.set(key, parsed);
    }
    return found;
  },
};

// Octane's own, each its number of iterations.
const octane = { splay: 300, 'earley-boyer': 2, raytrace: 2, deltablue: 4, pdfjs: 1 };
for (const [name, iterations] of Object.entries(octane)) programs[name] = times => runOctane(name, iterations * times);

function runOctane(name, iterations) {
  const folder = path.join(modules, 'benchmark-octane', 'lib', 'octane');
  global.alert = message => { throw new Error(message); };
  for (const file of ['base.js', `${name}.js`]) {
    vm.runInThisContext(fs.readFileSync(path.join(folder, file), 'utf8'), { filename: file });
  }
  const suites = vm.runInThisContext('BenchmarkSuite.ResetRNG(), BenchmarkSuite.suites');
  for (const suite of suites) {
    for (const benchmark of suite.benchmarks) {
      benchmark.Setup();
      for (let nth = 0; nth < iterations; nth++) benchmark.run();
      benchmark.TearDown();
    }
  }
  return suites.length;
}

// Knuth's MMIX constants, in the 32 bits that JavaScript multiplies exactly.
function numbers(seed) {
  let state = seed;
  return limit => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * limit);
  };
}

// A document as an interface of the web gives one: a list of records with names, numbers, labels.
function document(nth) {
  const random = numbers(nth + 1);
  const items = [];
  for (let item = 0; item < 20 + random(180); item++) {
    const labels = [];
    for (let label = 0; label < random(6); label++) labels.push(`label-${random(40)}`);
    items.push({
      id: nth * 1000 + item,
      name: 'n'.repeat(5 + random(40)),
      score: random(1000) / 8,
      labels,
      owner: { login: `user-${random(500)}`, active: random(2) === 0, site: null },
      text: random(4) === 0 ? 'x'.repeat(random(2000)) : '',
    });
  }
  return { page: nth, total: items.length, items };
}

const [name, times] = process.argv.slice(2);
if (!programs[name]) {
  console.error(`node programs/run.cjs NAME [TIMES]: there is no ${name}; there are ${Object.keys(programs).join(', ')}`);
  process.exit(2);
}
Promise.resolve(programs[name](Number(times || 1))).then(result => console.log(name, result));
