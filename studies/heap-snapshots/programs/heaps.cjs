// Heaps made of nothing but the language: each fills one place of the format, or one rule of DevTools.

'use strict';
const vm = require('vm');

/** The same numbers on every run: a file's content is then the same but for addresses and ids. */
function random(seed) {
  let state = seed;
  return limit => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state % limit;
  };
}

function user(number, next) {
  return {
    id: number,
    guid: 'a' + number.toString(16) + '-' + next(1e6).toString(36),
    name: 'user ' + number,
    email: 'user' + number + '@example.org',
    score: next(1000) / 7,
    tags: ['t' + next(50), 't' + next(50), 't' + next(50)],
    address: {street: next(300) + ' Main Street', city: 'City ' + next(200), geo: {lat: next(180) - 90.5, lon: next(360) - 180.25}},
    friends: [{id: next(1000), since: 2000 + next(20) + '-01-01'}, {id: next(1000), since: 2000 + next(20) + '-06-01'}],
  };
}

/** A cache of parsed JSON documents: many small objects of few shapes, many strings, many numbers. */
const jsonCache = {
  fill(scale) {
    const next = random(1);
    const cache = new Map();
    for (let document = 0; document < 20 * scale; ++document) {
      const users = [];
      for (let number = 0; number < 100; ++number) {
        users.push(user(document * 100 + number, next));
      }
      cache.set('/documents/' + document, JSON.parse(JSON.stringify(users)));
    }
    return {cache};
  },
  change(held, time) {
    const next = random(time);
    for (const key of [...held.cache.keys()].slice(0, 3)) {
      held.cache.delete(key);
    }
    for (let document = 0; document < 5; ++document) {
      held.cache.set('/later/' + time + '/' + document, JSON.parse(JSON.stringify([user(document, next), user(document + 7, next)])));
    }
  },
};

/** Objects whose property names are numbers as texts, beyond the range of array indices: what the hash of V8's names was slow on. */
const numericKeys = {
  fill(scale) {
    const table = Object.create(null);
    for (let number = 0; number < 20000 * scale; ++number) {
      table['1' + String(number).padStart(10, '0')] = {number};
    }
    return {table, indexed: Object.fromEntries ? Object.fromEntries([...Array(1000).keys()].map(key => [key * 3, 'v' + key])) : {}};
  },
  change(held, time) {
    held.table['late' + time] = {time};
  },
};

/** A minified program: one line, thousands of closures with a position each. */
const closures = {
  fill(scale) {
    let source = '(function(){var f=[];';
    for (let number = 0; number < 1000 * scale; ++number) {
      source += 'f.push(function a' + number + '(b,c){return b+c+' + number + '});';
    }
    return {functions: vm.runInThisContext(source + 'return f})()', {filename: 'minified.js'})};
  },
  change(held) {
    held.functions.splice(0, 10);
  },
};

/** A list as long as it gets: whoever recurses over it falls. */
const deepChain = {
  fill(scale) {
    let head = null;
    for (let number = 0; number < 50000 * scale; ++number) {
      head = {next: head, number: number + 0.5};
    }
    return {head};
  },
  change(held) {
    held.head = {next: held.head, number: -1};
  },
};

/** Very wide objects: elements, properties, a Map, a Set, and one object that everybody refers to. */
const wide = {
  fill(scale) {
    const shared = {shared: true};
    const elements = Array.from({length: 30000 * scale}, (_, index) => index % 3 ? shared : {index});
    const properties = {};
    for (let number = 0; number < 20000 * scale; ++number) {
      properties['property' + number] = number % 2 ? shared : 'value ' + number;
    }
    return {elements, properties, map: new Map(elements.map((value, index) => [index, value])), set: new Set(elements), holes: [1, , 3, , 5]};
  },
  change(held) {
    held.elements.length /= 2;
  },
};

class Session {
  constructor(number) {
    this.number = number;
    this.payload = new Array(20).fill(number);
  }
}

/** Weak collections, finalizers, and values that only a key keeps alive. */
const weak = {
  fill(scale) {
    const keys = [], map = new WeakMap(), other = new WeakMap(), set = new WeakSet(), refs = [];
    const registry = typeof FinalizationRegistry === 'undefined' ? null : new FinalizationRegistry(() => {});
    for (let number = 0; number < 500 * scale; ++number) {
      const key = new Session(number);
      keys.push(key);
      map.set(key, {value: number, back: number % 2 ? key : null});
      if (number % 3 === 0) {
        other.set(key, map);
      }
      set.add(key);
      if (typeof WeakRef !== 'undefined') {
        refs.push(new WeakRef(number % 5 ? key : {only: 'weakly held ' + number}));
      }
      if (registry) {
        registry.register(key, {held: number}, key);
      }
    }
    map.set(map, map);
    return {keys, map, other, set, refs, registry};
  },
  change(held) {
    held.keys.splice(0, 50);
  },
};

/** Names that collide or look like something else, and one value of every kind. */
const names = {
  fill(scale) {
    const classes = [];
    const script = (number, name, lines) => new vm.Script('\n'.repeat(lines) + '(class ' + name + '{constructor(n){this.n=n}})', {filename: 'file' + number + '.js'});
    ['Twin', 'Twin', 'Detached', 'Object', 'Function', 'Array', 'RegExp'].forEach((name, number) => {
      classes.push(script(number, name, number).runInThisContext());
    });
    const made = [];
    for (let number = 0; number < 5 * scale; ++number) {
      classes.forEach(each => made.push(new each(number)));
    }
    const named = text => {
      const made = new (class {})();
      Object.defineProperty(made.constructor, 'name', {value: text});
      return made;
    };
    const tags = ['<div id="a">', '<div id="b">', '<div>', 'Detached <div class="x y">', 'Detached Foo', '(system)', '(compiled code)', 'a,b', ''].map(named);
    const text = 'duplicated text of some length '.repeat(3);
    const strings = [...Array(30).keys()].map(number => JSON.parse(JSON.stringify(text + number % 4)));
    strings.push('\ud800 lone', 'tail \udfff', '\u{1f600} paired', 'z\u00fcrich', '\u0000\u0001\u001f"\\/', 'x'.repeat(5000), 'y'.repeat(5000), strings[0] + strings[1] + made.length);
    // Interfaces: the same properties in different orders, subsets of each other, and one that only one object has.
    const shaped = [];
    for (let number = 0; number < 40; ++number) {
      const one = {number}, two = {number};
      shaped.push({alpha: one, beta: two}, {beta: one, alpha: two}, {alpha: one}, {alpha: one, beta: two, gamma: one}, {'odd name': one, 'a,b': two, '{x}': two});
    }
    shaped.push({alone: shaped[0], unique: shaped[1]}, {});
    function* generator() {
      yield made;
    }
    const running = generator();
    running.next();
    return {
      made, tags, strings, shaped, running,
      symbols: [Symbol('described'), Symbol.for('registered'), Symbol()],
      numbers: [1.5, -0, NaN, Infinity, 2 ** 31, 2 ** 53, BigInt('123456789012345678901234567890')],
      patterns: [/a+b/gi, new RegExp('(x)(?<name>y)')],
      buffers: [new ArrayBuffer(4096), Buffer.alloc(10000), new Uint8Array(100), new Float64Array(1000), new DataView(new ArrayBuffer(16))],
      promises: [Promise.resolve(made), new Promise(() => {})],
      proxy: new Proxy({target: made}, {}),
      bound: main.bind(null, made),
      dates: [new Date(0)],
      errors: [new Error('an error with a stack')],
    };
    function main() {}
  },
  change(held) {
    held.made.splice(0, 7);
    held.shaped.push({delta: held, alpha: held});
  },
};

/** A program that leaks: sessions of closed connections stay in a list of listeners. */
const leak = {
  fill(scale) {
    const next = random(3);
    return {listeners: [...Array(200 * scale).keys()].map(number => listener(new Session(number))), cache: {}, next, scale};
  },
  change(held, time) {
    for (let number = 0; number < 100 * held.scale; ++number) {
      held.listeners.push(listener(new Session(time * 1000 + number)));
    }
    held.listeners.splice(0, 20);
    held.cache = {};
    for (let number = 0; number < 50; ++number) {
      held.cache['key ' + held.next(1000)] = {time, number};
    }
  },
};

function listener(session) {
  return () => session.number;
}

class Inspected {
  constructor(number) {
    this.rows = new Array(50).fill({number});
  }
}

/** What somebody looked at in a console: it stays alive until the console is cleared. A target of itself, so that no browser is needed. */
const inspected = {
  fill(scale) {
    global.Inspected = Inspected;
    const {Session} = require('inspector');
    const session = new Session();
    session.connect();
    session.post('Runtime.enable');
    for (let number = 0; number < 20 * scale; ++number) {
      session.post('Runtime.evaluate', {expression: `new Inspected(${number})`, objectGroup: 'console'});
    }
    return {session};
  },
  change(held) {
    held.session.post('Runtime.evaluate', {expression: 'new Inspected(-1)', objectGroup: 'console'});
  },
};

module.exports = {
  'json-cache': jsonCache,
  'numeric-keys': numericKeys,
  closures,
  'deep-chain': deepChain,
  wide,
  weak,
  names,
  leak,
  inspected,
};
