// Heaps of real programs at work: the TypeScript compiler with a checked program, eslint with its results. Installed by `npm ci`,
// not by `npm ci --omit=dev`. Their versions are the last that run on Node 12, so that every Node works on the same.

'use strict';
const fs = require('fs');
const path = require('path');

const modules = path.join(__dirname, '..', 'node_modules');

/**
 * The TypeScript compiler after it has checked its own declarations; everything is still referred to.
 *
 * The compiler is one script of 170,000 lines. Node 18 and older look for all of them again for each of its functions while they write (the document's
 * second defect): more than five minutes a snapshot. `settle` makes V8 look once and keep them, as a program does that has shown an error's stack.
 */
const typescript = {
  settle({ts}) {
    try {
      ts.createProgram(null);
    } catch (error) {
      return error.stack;
    }
  },
  fill(scale) {
    const ts = require('typescript');
    const folder = path.join(modules, 'typescript', 'lib');
    const files = ['typescript.d.ts', 'tsserverlibrary.d.ts'].map(name => path.join(folder, name));
    const programs = [];
    for (let number = 0; number < scale; ++number) {
      const program = ts.createProgram(files, {noEmit: true, strict: true, skipLibCheck: false, types: []});
      ts.getPreEmitDiagnostics(program);
      programs.push(program);
    }
    return {ts, programs};
  },
  change(held) {
    held.programs.push(held.ts.createProgram([], {}));
  },
};

/** eslint with the syntax trees and scopes of its own sources. */
const eslint = {
  fill(scale) {
    const {Linter, SourceCode} = require('eslint');
    const linter = new Linter({configType: 'flat'});
    const rules = Object.fromEntries(['no-unused-vars', 'no-undef', 'eqeqeq', 'no-shadow', 'complexity', 'prefer-const'].map(rule => [rule, 'warn']));
    const kept = [];
    const folder = path.join(modules, 'eslint', 'lib', 'rules');
    for (const name of fs.readdirSync(folder).filter(name => name.endsWith('.js')).slice(0, 25 * scale)) {
      const text = fs.readFileSync(path.join(folder, name), 'utf8');
      const messages = linter.verify(text, [{rules, languageOptions: {sourceType: 'commonjs'}}], {filename: name});
      kept.push({name, messages, source: linter.getSourceCode()});
    }
    return {linter, kept, SourceCode};
  },
  change(held) {
    held.kept.splice(0, 5);
  },
};

module.exports = {typescript, eslint};
