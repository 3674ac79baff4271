// The flame graph: an icicle (callers above, callees below) on a canvas as high as its window, so that neither ten
// thousand nodes nor five hundred levels cost more than what is seen. Colours tell modules apart. Its trees are in tree.js.

const FLAME_ROW = 20;

class FlameGraph {
  constructor(page) {
    this.page = page;
    this.measure = 0;
    this.tree = this.makeTree();
    this.zoomed = 0;
    this.current = 0;
    this.matches = null;
    this.boxes = [];
    this.canvas = el('canvas', { tabindex: '0', role: 'application', 'aria-roledescription': 'flame graph', 'aria-describedby': 'flame-help', 'aria-label': 'Flame graph; the heaviest functions are in the table below.' });
    this.spacer = el('div', { class: 'flame-spacer' }, this.canvas);
    this.window = el('div', { class: 'flame-window' }, this.spacer);
    this.readout = el('p', { class: 'readout', 'aria-live': 'polite' });
    this.functions = el('div', {});
    this.moduleColours();
    this.controls = this.buildControls();
    this.listen();
    this.fillFunctions();
    redrawn(this.window, () => this.draw());
  }

  buildControls() {
    const measures = this.page.flame.measures.map((measure, index) => [String(index), measure.title]);
    this.search = el('input', { type: 'search', id: 'flame-search', placeholder: 'Function or module', autocomplete: 'off', spellcheck: 'false', oninput: () => this.searched() });
    this.found = el('span', { class: 'found', 'aria-live': 'polite' });
    this.reset = el('button', { type: 'button', class: 'quiet', disabled: true, onclick: () => this.zoom(0) }, 'Whole graph');
    return el('div', {},
      el('div', { class: 'controls' }, choice('Show', measures, '0', (value) => this.show(Number(value)))),
      el('div', { class: 'controls' }, el('label', { for: 'flame-search' }, 'Find'), this.search, this.found, this.reset,
        el('span', { class: 'help', id: 'flame-help' }, 'Click to zoom. With the keyboard: arrows walk, Enter zooms, Escape goes back.')));
  }

  get unit() { return this.page.flame.measures[this.measure].unit; }

  // The tree of what is shown.
  makeTree() { return FlameTree.ofMeasure(this.page, this.measure); }

  show(measure) {
    this.measure = measure;
    this.tree = this.makeTree();
    if (!(this.tree.value[this.zoomed] > 0)) this.zoomed = 0;
    this.current = this.zoomed;
    this.reset.disabled = this.zoomed === 0;
    this.find(this.search.value);
    this.fillFunctions();
  }

  zoom(node) {
    this.zoomed = node;
    this.current = node;
    this.reset.disabled = node === 0;
    this.window.scrollTop = Math.max(0, (this.tree.depth[node] - 2) * FLAME_ROW);
    this.draw();
  }

  searched() { this.find(this.search.value); }

  find(text, exact = false) {
    const wanted = text.trim().toLowerCase();
    this.matches = null;
    this.found.textContent = '';
    if (wanted) {
      const hit = [...this.page.frames, ...this.tree.extra].map((frame) => (exact ? frame.label.toLowerCase() === wanted : `${frame.label} ${frame.module}`.toLowerCase().includes(wanted)));
      this.matches = new Set();
      for (let node = 1; node < this.tree.parent.length; node += 1) if (hit[this.tree.frame[node]] && this.tree.value[node] > 0) this.matches.add(node);
      const sum = this.tree.coverage(this.matches);
      this.found.textContent = this.matches.size === 0 ? 'nothing found' : `in ${formatShare(sum, this.tree.value[0])} (${formatMeasure(sum, this.unit)})`;
    }
    this.draw();
  }

  // The six heaviest modules get a colour of their own, the rest share one.
  moduleColours() {
    const weight = new Map();
    const tree = this.whole();
    for (const { frame, self, total } of tree.byFunction()) {
      const { module } = tree.info(frame);
      weight.set(module, (weight.get(module) ?? 0) + self + total / 1e3);
    }
    const ranked = [...weight].filter(([module]) => module).sort((a, b) => b[1] - a[1]).map(([module]) => module);
    this.colourOf = new Map(ranked.slice(0, 6).map((module, index) => [module, index]));
    const keys = ranked.slice(0, 6).map((module, index) => el('span', { class: 'key' }, el('span', { class: `swatch flame-${index}`, 'aria-hidden': 'true' }), module));
    if (ranked.length > 6) keys.push(el('span', { class: 'key' }, el('span', { class: 'swatch flame-6', 'aria-hidden': 'true' }), plural(ranked.length - 6, 'other module')));
    this.modulesLegend = el('p', { class: 'legend' }, ...keys);
  }

  // Rows from the root of all through the zoomed node's callers to everything under it.
  layout(width) {
    this.boxes = [];
    for (let node = this.zoomed; node > 0; node = this.tree.parent[node]) this.boxes.push({ node, x: 0, width, above: node !== this.zoomed });
    this.boxes.push({ node: 0, x: 0, width, above: this.zoomed !== 0 });
    const scale = width / Math.max(1, this.tree.value[this.zoomed]);
    const visit = [{ node: this.zoomed, x: 0 }];
    let deepest = this.tree.depth[this.zoomed];
    while (visit.length > 0) {
      const { node, x } = visit.pop();
      let left = x;
      for (const child of this.tree.children[node]) {
        const size = this.tree.value[child] * scale;
        if (size < 0.5) break;
        this.boxes.push({ node: child, x: left, width: size, above: false });
        deepest = Math.max(deepest, this.tree.depth[child]);
        visit.push({ node: child, x: left });
        left += size;
      }
    }
    return (deepest + 1) * FLAME_ROW;
  }

  draw() {
    const width = Math.max(200, this.window.clientWidth);
    const height = this.layout(width);
    this.spacer.style.height = `${height}px`;
    // Zooming in shows fewer levels; what stands below must not jump for that.
    this.tallest = Math.max(this.tallest ?? 0, height);
    this.window.style.minHeight = `min(${this.tallest + 2}px, var(--flame-height))`;
    const seen = Math.min(height, this.window.clientHeight || height);
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = seen * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${seen}px`;
    this.paint(width, seen, ratio);
    this.read(this.current);
  }

  paint(width, height, ratio) {
    const context = this.canvas.getContext('2d');
    const style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    const fills = [0, 1, 2, 3, 4, 5, 6].map((index) => colour(`--flame-${index}`));
    const [text, paper, found, ink] = [colour('--flame-text'), colour('--paper'), colour('--flame-found'), colour('--ink')];
    const foundText = colour('--flame-found-text');
    const top = this.window.scrollTop;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${style.getPropertyValue('--mono')}`;
    context.textBaseline = 'middle';
    const letter = context.measureText('0').width;
    for (const { node, x, width: size, above } of this.boxes) {
      const y = this.tree.depth[node] * FLAME_ROW - top;
      if (y + FLAME_ROW < 0 || y > height) continue;
      const match = this.matches?.has(node);
      const dimmed = above || (this.matches && !match);
      context.globalAlpha = dimmed ? 0.55 : 1;
      context.fillStyle = match ? found : this.fill(node, fills, colour);
      context.fillRect(x, y, Math.max(0.5, size - (size > 3 ? 1 : 0)), FLAME_ROW - 1);
      context.globalAlpha = 1;
      const letters = Math.floor((size - 9) / letter);
      if (letters >= 3) {
        context.fillStyle = match ? foundText : text;
        context.fillText(shorten(shortName(this.tree.label(node)), letters), x + 4, y + FLAME_ROW / 2);
      }
      if (node === this.current && document.activeElement === this.canvas) {
        context.strokeStyle = ink;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, Math.max(2, size - 3), FLAME_ROW - 3);
      }
    }
    context.fillStyle = paper;
  }

  fill(node, fills) {
    return fills[this.colourOf.get(this.tree.module(node)) ?? 6];
  }

  read(node) {
    const value = this.tree.value[node];
    const exact = this.unit === 'byte' ? bytesNode(value) : el('span', { class: 'n' }, formatMeasure(value, this.unit));
    const where = [this.tree.place(node), this.tree.module(node)].filter((text) => text && !this.tree.label(node).startsWith(text)).join(' · ');
    const parts = [el('strong', { class: 'code' }, this.tree.label(node)), ' ', where ? el('span', { class: 'where' }, where) : null, ' ', exact, `, ${formatShare(value, this.tree.value[0])} of all`];
    if (this.zoomed !== 0 && this.tree.isWithin(node, this.zoomed)) parts.push(`, ${formatShare(value, this.tree.value[this.zoomed])} of the shown part`);
    const own = this.ownOf(node);
    if (own > 0 && own < value) parts.push(`; ${formatMeasure(own, this.unit)} asked for here`);
    this.readout.replaceChildren(...parts.filter(Boolean));
  }

  at(event) {
    const place = this.canvas.getBoundingClientRect();
    const x = event.clientX - place.left;
    const row = Math.floor((event.clientY - place.top + this.window.scrollTop) / FLAME_ROW);
    return this.boxes.find((box) => this.tree.depth[box.node] === row && x >= box.x && x < box.x + box.width)?.node;
  }

  listen() {
    this.canvas.addEventListener('mousemove', (event) => {
      const node = this.at(event);
      this.canvas.style.cursor = node === undefined ? 'default' : 'pointer';
      this.read(node ?? this.current);
    });
    this.canvas.addEventListener('mouseleave', () => this.read(this.current));
    this.canvas.addEventListener('click', (event) => {
      const node = this.at(event);
      if (node !== undefined) this.zoom(node);
    });
    for (const name of ['focus', 'blur']) this.canvas.addEventListener(name, () => this.draw());
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    let asked = false;
    this.window.addEventListener('scroll', () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => { asked = false; this.draw(); });
    });
  }

  key(event) {
    const { tree, current } = this;
    const siblings = current === 0 ? [0] : tree.children[tree.parent[current]];
    const here = siblings.indexOf(current);
    const moves = {
      ArrowUp: () => (current === 0 ? 0 : tree.parent[current]),
      ArrowDown: () => tree.children[current][0] ?? current,
      ArrowLeft: () => siblings[here - 1] ?? current,
      ArrowRight: () => siblings[here + 1] ?? current,
      Home: () => this.zoomed,
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Enter' || event.key === ' ') this.zoom(current);
    else if (event.key === 'Escape') this.zoom(0);
    else if (moves[event.key]) this.walk(moves[event.key]());
    else return;
    event.preventDefault();
  }

  walk(node) {
    this.current = node;
    const y = this.tree.depth[node] * FLAME_ROW;
    const { scrollTop: top, clientHeight: height } = this.window;
    if (y < top) this.window.scrollTop = y;
    if (y + FLAME_ROW > top + height) this.window.scrollTop = y + FLAME_ROW - height;
    if (!this.tree.isWithin(node, this.zoomed)) this.zoomed = node;
    this.reset.disabled = this.zoomed === 0;
    this.draw();
  }

  // What choosing a function in the table does: the graph shows where it is.
  choose(frame) {
    const { label } = this.tree.info(frame);
    this.search.value = label;
    this.find(label, true);
    this.window.scrollIntoView({ block: 'center' });
  }

  // What a place asks for itself.
  ownOf(node) { return this.tree.self(node); }

  // The tree whose modules have colours, the same whatever is shown.
  whole() { return this.tree; }

  // The tree whose functions stand in the table: callers above, callees below.
  calls() { return this.tree; }

  measureTitle() { return this.page.flame.measures[this.measure].title; }

  fillFunctions() {
    const { unit } = this;
    const tree = this.calls();
    const all = tree.value[0];
    const rows = tree.byFunction().filter((row) => row.self > 0 || row.total * 200 >= all).sort((a, b) => b.self - a.self || b.total - a.total).slice(0, 300);
    const amount = (value) => (value === 0 ? '–' : unit === 'byte' ? bytesNode(value) : formatCount(value));
    const measure = this.measureTitle();
    const name = (row) => {
      const frame = tree.info(row.frame);
      return [el('button', { type: 'button', class: 'link code', title: frame.label, onclick: () => this.choose(row.frame) }, shortName(frame.label)),
        el('span', { class: 'where' }, [frame.place, frame.module].filter((text) => text && !frame.label.startsWith(text)).join(' · '))];
    };
    this.functions.replaceChildren(el('h3', {}, 'Functions that ask for most'), sortable(`Functions, ${measure.toLowerCase()}`, [
      { title: 'Function', class: 'wide', value: (row) => tree.info(row.frame).label, cell: name },
      { title: 'Asked for here', numeric: true, hint: 'By the function itself', value: (row) => row.self, cell: (row) => amount(row.self) },
      { title: 'Share', numeric: true, value: (row) => row.self, class: 'bar-cell', cell: (row) => [row.self ? formatShare(row.self, all) : '–', barNode(row.self / all)] },
      { title: 'With callees', numeric: true, hint: 'By the function and everything it calls', value: (row) => row.total, cell: (row) => amount(row.total) },
    ], rows, { first: 12, sortBy: 1, noun: 'function' }));
  }
}

// Of module + offset the offset is what tells places apart, of a function its beginning.
function shorten(text, letters) {
  const offset = text.lastIndexOf('+0x');
  if (text.length > letters && offset > 0 && text.length - offset <= letters) return text.slice(offset);
  return text.length <= letters ? text : `${text.slice(0, Math.max(1, letters - 1))}…`;
}
