// Ten leaks as programs have them; eight of them for Node, one for a page and one for Python.
//
// Each is {setup, act, revert, way}: `act` makes 60 things of some kilobytes and `revert` does what
// their authors believed to free them. What holds them then is the leak, and `way` says by which
// names a reference leads there, in their order, and to what class. `heaplab snapshot leaks` has to
// name that way first.

'use strict';

const COUNT = 60;
const BYTES = 4000;

class Order { constructor(number) { this.number = number; this.lines = new Array(BYTES / 8).fill(number); } }

const leaks = {};
/** Of the orders so far, so that no key comes twice. */
let orders = 0;

// Two closures of one function share a context: the small one that stays keeps the large variable
// of the other, which has gone.
leaks.closures = {
  setup() {
    const app = {handlers: []};
    function attach(number) {
      const order = new Order(number);
      const print = () => order.lines.length;
      print();
      return () => number;
    }
    return {
      app,
      act() { for (let number = 0; number < COUNT; ++number) { app.handlers.push(attach(number)); } },
      revert() { app.handlers.forEach(handler => handler()); },
    };
  },
  way: {names: ['handlers'], class: 'Function'},
};

// Views listen to a bus that outlives them; closing a view forgets to stop listening.
leaks.listeners = {
  setup() {
    const {EventEmitter} = require('node:events');
    const bus = new EventEmitter();
    bus.setMaxListeners(0);
    const app = {bus, views: []};
    class View { constructor(number) { this.order = new Order(number); bus.on('update', () => this.order); } }
    return {
      app,
      act() { for (let number = 0; number < COUNT; ++number) { app.views.push(new View(number)); } },
      revert() { app.views.length = 0; },
    };
  },
  way: {names: ['bus', '_events', 'update'], class: 'Function'},
};

// An interval that is never cleared keeps what its callback uses.
leaks.timers = {
  setup() {
    const app = {pollers: []};
    class Poller {
      constructor(number) {
        this.order = new Order(number);
        setInterval(() => this.order, 3600 * 1000).unref();
      }
    }
    return {
      app,
      act() { for (let number = 0; number < COUNT; ++number) { app.pollers.push(new Poller(number)); } },
      revert() { app.pollers.length = 0; },
    };
  },
  way: {names: [], class: 'Timeout'},
};

// A cache by a key that is never asked for again, in an object used as a map.
leaks.caches = {
  setup() {
    const app = {cache: Object.create(null)};
    return {
      app,
      act() { for (let number = 0; number < COUNT; ++number) { app.cache['order-' + orders++] = new Order(number); } },
      revert() {},
    };
  },
  way: {names: ['cache'], class: 'Order'},
};

// Metadata of requests in a Map keyed by the request: the Map keeps its keys.
leaks.maps = {
  setup() {
    const app = {metadata: new Map()};
    class Request { constructor(number) { this.body = new Order(number); } }
    return {
      app,
      act() {
        for (let number = 0; number < COUNT; ++number) {
          const request = new Request(number);
          app.metadata.set(request, {began: number});
        }
      },
      revert() {},
    };
  },
  way: {names: ['metadata'], class: 'Request'},
};

// Work that waits for an answer which never comes: the one promise keeps all that wait for it.
leaks.promises = {
  setup() {
    const app = {ready: new Promise(() => {})};
    async function serve(number) {
      const order = new Order(number);
      await app.ready;
      return order;
    }
    return {
      app,
      act() { for (let number = 0; number < COUNT; ++number) { serve(number); } },
      revert() {},
    };
  },
  way: {names: ['ready'], class: ''},
};

// A module's array that grows with each call: a log for debugging that nobody reads.
leaks.modules = {
  setup() {
    const Module = require('node:module');
    const log = new Module('audit-log');
    log.exports = {entries: []};
    require.cache['audit-log'] = log;
    return {
      app: {},
      act() { for (let number = 0; number < COUNT; ++number) { require.cache['audit-log'].exports.entries.push(new Order(number)); } },
      revert() {},
    };
  },
  way: {names: ['entries'], class: 'Order'},
};

// A WeakRef to each order, and a registry that is to clean up: what it is told to hold for that is
// the order itself, which therefore never goes.
leaks.weakrefs = {
  setup() {
    const app = {refs: new Map(), registry: new FinalizationRegistry(held => app.refs.delete(held.number))};
    return {
      app,
      act() {
        for (let number = 0; number < COUNT; ++number) {
          const order = new Order(number);
          app.refs.set(++orders, new WeakRef(order));
          app.registry.register(order, {number: orders, order});
        }
      },
      revert() {},
    };
  },
  way: {names: ['registry'], class: ''},
};

module.exports = leaks;
