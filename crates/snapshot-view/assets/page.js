// The page's script: views over rows that the server gives. Names from a snapshot are data from elsewhere: they reach the
// page as text nodes and attributes only, never as markup.

const ROWS = 100;
// A chain of retainers opens by itself up to an object this near to a root.
const NEAR_ROOT = 2;
const CHAIN_ROWS = 30;
// An object of this share of another's retained size stands for it where a map begins.
const MOST = 0.9;

const byId = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    // The page's policy forbids style attributes in markup.
    else if (name === 'style') Object.entries(value).forEach(([property, text]) => text !== undefined && node.style.setProperty(property, text));
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

async function ask(question, values = {}) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== '');
  let answer;
  try {
    answer = await fetch(`api/${question}?${new URLSearchParams(given)}`);
  } catch {
    throw new Error('heaplab does not answer any more: start `heaplab snapshot open --serve` again.');
  }
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return JSON.parse(text);
}

let running = 0;

/** Runs something that asks, and says why it could not. */
async function trying(what) {
  document.body.ariaBusy = String(++running > 0);
  try {
    await what();
    byId('problem').hidden = true;
  } catch (error) {
    byId('problem').textContent = error.message;
    byId('problem').hidden = false;
  } finally {
    document.body.ariaBusy = String(--running > 0);
  }
}

// Columns: what the server sorts by, a title, and the cell of a row.
const SIZE = (key, title) => ({ key, title, cell: (row) => row[key] && [
  el('span', { title: row[key].exact }, row[key].text), el('span', { class: 'share' }, `${row[key].percent.toFixed(0)} %`)], share: (row) => row[key]?.percent });
const NUMBER = (key, title) => ({ key, title, narrow: true, cell: (row) => row[key] });
const DISTANCE = NUMBER('distance', 'Distance');
const OBJECT_COLUMNS = [DISTANCE, SIZE('shallow', 'Shallow size'), SIZE('retained', 'Retained size')];
const CHANGE_COLUMNS = [NUMBER('added', '# New'), NUMBER('removed', '# Deleted'), NUMBER('delta', '# Delta'),
  NUMBER('added_bytes', 'Alloc. size'), NUMBER('removed_bytes', 'Freed size'), { ...NUMBER('delta_bytes', 'Size delta') }];

function label(row) {
  const parts = [];
  if (row.edge) {
    const shown = row.edge.type === 'element' ? `[${row.edge.name}]` : row.edge.name;
    parts.push(el('span', { class: `edge ${row.edge.type}`, title: row.edge.type }, shown), row.from ? ' in ' : ' :: ');
  }
  const kind = row.type?.includes('string') ? 'string' : '';
  parts.push(el('span', { class: `${kind} ${row.change ?? ''}`, title: row.type }, row.label));
  if (row.place) parts.push(el('span', { class: 'muted' }, `  ${row.place}`));
  if (row.detached) parts.push(el('span', { class: 'detached' }, 'detached'));
  if (row.again) parts.push(el('span', { class: 'muted' }, '  (again)'));
  return parts;
}

/** A table whose rows open: `rows(parent, from, sort)` gives { total, rows }, `opens(row)` whether a row may have some. */
class Grid {
  constructor({ title, columns, sort, rows, opens = (row) => !row.leaf, chosen = () => {}, said = () => {} }) {
    Object.assign(this, { columns, rows, opens, chosen, said, sort });
    this.head = el('div', { class: 'row head', role: 'row' }, this.heading({ key: 'name', title }, 'what'), columns.map((column) => this.heading(column)));
    this.body = el('div', { role: 'presentation' });
    this.node = el('div', { class: 'grid', role: 'treegrid', 'aria-label': title }, this.head, this.body);
    this.node.addEventListener('keydown', (event) => this.key(event));
  }

  heading(column, what) {
    const button = el('button', { type: 'button', onclick: () => this.sortBy(column.key) }, column.title);
    return el('span', { class: what ?? `n ${column.narrow ? 'narrow' : ''}`, role: 'columnheader', 'data-key': column.key }, button);
  }

  sortBy(key) {
    this.sort = { key, descending: this.sort.key === key ? !this.sort.descending : key !== 'name' && key !== 'distance' };
    return trying(() => this.load());
  }

  async load() {
    for (const heading of this.head.children) {
      const direction = this.sort.descending ? 'descending' : 'ascending';
      heading.setAttribute('aria-sort', heading.dataset.key === this.sort.key ? direction : 'none');
      heading.firstChild.textContent = heading.firstChild.textContent.replace(/ [▲▼]$/, '') + (heading.dataset.key === this.sort.key ? (this.sort.descending ? ' ▼' : ' ▲') : '');
    }
    const answer = await this.rows(null, 0, this.sort);
    this.body.replaceChildren(...this.elements(answer, null, 0));
    if (this.body.firstChild) this.body.firstChild.tabIndex = 0;
    this.said(answer);
  }

  /** The rows of an answer, and one that shows more. */
  elements(answer, parent, from) {
    const level = parent ? parent.level + 1 : 0;
    const elements = answer.rows.map((row) => this.element(row, parent, level));
    const left = answer.total - from - answer.rows.length;
    if (left > 0) {
      const more = el('div', { class: 'row leaf', role: 'row', style: { '--level': level } }, el('span', { class: 'what' }, el('button', { class: 'more', type: 'button' }, `Show ${Math.min(left, ROWS)} more of ${left.toLocaleString('en')}`)));
      more.level = level;
      more.querySelector('button').onclick = () => trying(async () => {
        const next = from + answer.rows.length;
        more.replaceWith(...this.elements(await this.rows(parent?.row ?? null, next, this.sort), parent, next));
      });
      elements.push(more);
    }
    return elements;
  }

  element(row, parent, level) {
    for (let above = parent; above; above = above.parent) row.again ||= row.node !== undefined && above.row.node === row.node;
    const opens = this.opens(row) && !row.again;
    const twist = el('button', { class: 'twist', type: 'button', tabindex: -1, 'aria-label': 'open', onclick: (event) => { event.stopPropagation(); trying(() => this.toggle(element)); } });
    const cells = this.columns.map((column) => el('span', { class: `n ${column.narrow ? 'narrow' : ''}`, role: 'gridcell', style: { '--share': column.share?.(row) } }, column.cell(row) ?? ''));
    const element = el('div', { class: `row ${opens ? '' : 'leaf'}`, role: 'row', tabindex: -1, 'aria-level': level + 1, 'aria-expanded': opens ? 'false' : null, style: { '--level': level },
      onclick: () => this.choose(element), ondblclick: () => opens && trying(() => this.toggle(element)) },
      el('span', { class: 'what', role: 'gridcell' }, twist, label(row)), cells);
    return Object.assign(element, { row, parent, level });
  }

  choose(element) {
    this.node.querySelector('[aria-selected="true"]')?.setAttribute('aria-selected', 'false');
    element.setAttribute('aria-selected', 'true');
    element.focus();
    if (element.row?.node !== undefined) this.chosen(element.row);
  }

  async toggle(element) {
    const open = element.getAttribute('aria-expanded');
    if (open === 'true') {
      while (element.nextSibling && element.nextSibling.level > element.level) element.nextSibling.remove();
      element.setAttribute('aria-expanded', 'false');
    } else if (open === 'false') {
      element.setAttribute('aria-expanded', 'true');
      element.after(...this.elements(await this.rows(element.row, 0, this.sort), element, 0));
    }
  }

  key(event) {
    const element = event.target.closest('.row');
    if (!element?.row) return;
    const isOpen = element.getAttribute('aria-expanded');
    const steps = {
      ArrowDown: () => this.go(element.nextSibling),
      ArrowUp: () => this.go(element.previousSibling),
      Home: () => this.go(this.body.firstChild),
      End: () => this.go(this.body.lastChild),
      ArrowRight: () => isOpen === 'false' ? trying(() => this.toggle(element)) : isOpen && this.go(element.nextSibling),
      ArrowLeft: () => isOpen === 'true' ? trying(() => this.toggle(element)) : element.parent && this.go(element.parent),
    };
    if (!steps[event.key]) return;
    event.preventDefault();
    steps[event.key]();
  }

  go(element) {
    if (element?.row) this.choose(element);
    else element?.querySelector('button')?.focus();
  }
}

const state = { files: [], file: 0, base: 0, view: 'summary', selected: null };
const sorted = (sort) => ({ sort: sort.key, descending: sort.descending ? 1 : 0 });
const at = (from) => ({ from, rows: ROWS });
const references = (file, row, from, sort) => ask('references', { file, node: row.node, ...at(from), ...sorted(sort) });
const said = (one, more) => (answer) => { byId('count').textContent = `${answer.total_text} ${answer.total_text === '1' ? one : more}`; };
const largest = () => ({ key: 'retained', descending: true });

const views = {
  summary: { title: 'Summary', tools: ['filter-tool', 'objects-tool'], show: () => {
    const asked = { file: state.file, text: byId('classes').value, filter: byId('filter').value };
    return grid({ title: 'Constructor', columns: [{ ...NUMBER('count', 'Count') }, ...OBJECT_COLUMNS], sort: largest(), opens: (row) => row.class !== undefined && row.node === undefined || !row.leaf, said: said('class', 'classes'),
      rows: (row, from, sort) => {
        if (!row) return ask('classes', { ...asked, ...at(from), ...sorted(sort) });
        if (row.node !== undefined) return references(state.file, row, from, sort);
        return ask('members', { ...asked, class: row.class, ...at(from), ...sorted(sort) });
      } });
  } },
  comparison: { title: 'Comparison', tools: ['filter-tool', 'base-tool'], show: () => {
    const asked = { file: state.file, base: state.base };
    return grid({ title: 'Constructor', columns: CHANGE_COLUMNS, sort: { key: 'delta_bytes', descending: true }, opens: (row) => row.changed !== undefined || !row.leaf, said: said('changed class', 'changed classes'),
      rows: (row, from, sort) => {
        if (!row) return ask('compared', { ...asked, text: byId('classes').value, ...at(from), ...sorted(sort) });
        if (row.node !== undefined) return references(row.file ?? state.file, row, from, largest());
        return ask('changed', { ...asked, changed: row.changed, ...at(from) });
      } });
  } },
  containment: { title: 'Containment', tools: [], show: () => grid({ title: 'Object', columns: OBJECT_COLUMNS, sort: largest(), said: said('reference of the root', 'references of the root'),
    rows: (row, from, sort) => references(state.file, row ?? { node: state.files[state.file].root }, from, sort) }) },
  statistics: { title: 'Statistics', tools: [], show: statistics },
  treemap: { title: 'Retained sizes', tools: [], show: () => treemap(state.files[state.file].root, MOST) },
  search: { title: 'Search', tools: [], show: () => grid({ title: 'Object', columns: OBJECT_COLUMNS, sort: largest(), said: said('object found', 'objects found'),
    rows: (row, from, sort) => row ? references(state.file, row, from, sort)
      : ask('search', { file: state.file, text: byId('text').value, case: byId('case').checked ? 1 : 0, ...at(from), ...sorted(sort) }) }) },
};

async function grid(options) {
  const made = new Grid({ chosen: (row) => select(row.file ?? state.file, row), ...options });
  byId('main').replaceChildren(made.node);
  await made.load();
}

function statistics() {
  const file = state.files[state.file];
  let turned = 0;
  const svg = (tag, attributes, ...children) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const arcs = file.statistics.map(({ share }, place) => {
    const arc = svg('circle', { r: 40, cx: 50, cy: 50, fill: 'none', stroke: `var(--area-${place})`, 'stroke-width': 18, pathLength: 1, 'stroke-dasharray': `${share} 1`, 'stroke-dashoffset': -turned, transform: 'rotate(-90 50 50)' });
    turned += share;
    return arc;
  });
  const total = svg('text', { x: 50, y: 53, 'text-anchor': 'middle', 'font-size': 9, fill: 'currentColor' }, file.total);
  const rows = file.statistics.map(({ name, text, share }, place) => el('tr', {}, el('td', {}, el('span', { class: 'swatch', style: { background: `var(--area-${place})` } }), name), el('td', {}, text), el('td', { class: 'muted' }, `${(share * 100).toFixed(1)} %`)));
  rows.push(el('tr', {}, el('td', {}, el('strong', {}, 'Total')), el('td', {}, el('strong', {}, file.total))));
  byId('main').replaceChildren(el('div', { class: 'statistics' }, svg('svg', { viewBox: '0 0 100 100', role: 'img', 'aria-label': `${file.total} by kind` }, ...arcs, total), el('table', {}, el('tbody', {}, rows))));
  byId('count').textContent = '';
}

async function treemap(node, most = Infinity) {
  let map = await ask('treemap', { file: state.file, node });
  while (map.within[0]?.node !== undefined && map.within[0].bytes > most * map.bytes) map = await ask('treemap', { file: state.file, node: map.within[0].node });
  const crumbs = [...map.above, map].flatMap((row, place, all) => [place ? ' › ' : '', place === all.length - 1 ? el('strong', {}, `${row.label} (${row.retained.text})`)
    : el('button', { class: 'more', type: 'button', onclick: () => trying(() => treemap(row.node)) }, row.label)]);
  const areas = el('div', { class: 'treemap' });
  const box = byId('main').getBoundingClientRect();
  const heading = 18;
  const place = (children, x, y, width, height, level) => {
    for (const [child, part] of squares(children, x, y, width, height)) {
      const isObject = child.node !== undefined;
      const colour = level === 0 && isObject ? children.indexOf(child) % 6 : 6;
      const [left, wide] = [part.x, part.width].map((length) => `${100 * length / box.width}%`);
      const [top, high] = [part.y, part.height].map((length) => `${100 * length / box.height}%`);
      areas.append(el(isObject ? 'button' : 'div', { class: 'area', title: `${child.label}\n${child.retained?.text ?? ''}`,
        style: { left, top, width: wide, height: high, background: `var(--area-${colour})` },
        onclick: isObject && (() => { select(state.file, child); if (!child.leaf) trying(() => treemap(child.node)); }) }, child.label));
      if (child.within.length && part.width > 40 && part.height > 3 * heading) place(child.within, part.x + 3, part.y + heading, part.width - 6, part.height - heading - 3, level + 1);
    }
  };
  place(map.within, 0, 0, box.width, box.height, 0);
  byId('main').replaceChildren(el('div', { class: 'crumbs' }, crumbs), areas);
  byId('count').textContent = map.within.length ? '' : 'This object alone keeps nothing else alive.';
}

/** Areas as near to squares as rows of them can be (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000). */
function* squares(children, x, y, width, height) {
  let rest = children.filter((child) => child.bytes > 0).sort((a, b) => b.bytes - a.bytes);
  let sum = rest.reduce((sum, child) => sum + child.bytes, 0);
  while (rest.length) {
    const area = width * height;
    const side = Math.min(width, height);
    const worst = (row, bytes) => Math.max(...row.map((child) => {
      const one = child.bytes / sum * area;
      const thick = bytes / sum * area / side;
      return Math.max(one / thick / thick, thick * thick / one);
    }));
    let count = 1;
    let bytes = rest[0].bytes;
    while (count < rest.length && worst(rest.slice(0, count + 1), bytes + rest[count].bytes) <= worst(rest.slice(0, count), bytes)) bytes += rest[count++].bytes;
    const thick = bytes / sum * area / side;
    let along = 0;
    for (const child of rest.slice(0, count)) {
      const long = child.bytes / bytes * side;
      yield [child, width < height ? { x: x + along, y, width: long, height: thick } : { x, y: y + along, width: thick, height: long }];
      along += long;
    }
    if (width < height) [y, height] = [y + thick, height - thick];
    else [x, width] = [x + thick, width - thick];
    sum -= bytes;
    rest = rest.slice(count);
  }
}

const panes = {
  retainers: { title: 'Retainers', show: async ({ file, node }) => {
    const made = new Grid({ title: 'Object', columns: OBJECT_COLUMNS, sort: { key: 'distance', descending: false }, opens: () => true, chosen: (row) => describe(file, row),
      rows: async (row, from, sort) => {
        const answer = await ask('retainers', { file, node: row?.node ?? node, ...at(from), ...sorted(sort) });
        answer.rows.forEach((row) => { row.from = true; });
        return answer;
      } });
    await made.load();
    byId('pane').replaceChildren(made.node);
    // The nearest way to a root, opened.
    let row = made.body.firstChild;
    for (let rows = 0; rows < CHAIN_ROWS && row?.row && Number(row.row.distance) > NEAR_ROOT && !row.row.again; rows++) {
      await made.toggle(row);
      row = row.nextSibling;
    }
  } },
  object: { title: 'Object', show: async ({ file, node }) => {
    const object = await ask('object', { file, node });
    const link = (row) => el('button', { class: 'more', type: 'button', onclick: () => select(file, row) }, `${row.label} (${row.retained.text})`);
    const parts = [['Name', object.name], ['Class', object.class], ['Type', object.type], ['Shallow size', object.shallow.exact], ['Retained size', object.retained.exact], ['Distance', object.distance]];
    if (object.place) parts.push(['Made at', object.place]);
    parts.push(['Allocated by', object.allocated_by.length ? object.allocated_by.join('\n') : 'not recorded: take the snapshot while allocations are tracked']);
    parts.push(['Dominated by', object.dominators.flatMap((row, place) => [place ? ' ‹ ' : '', link(row)])]);
    byId('pane').replaceChildren(el('dl', {}, parts.flatMap(([name, value]) => [el('dt', { class: 'muted' }, name), el('dd', {}, value)])));
  } },
};

function describe(file, row) {
  const map = el('button', { class: 'more', type: 'button', onclick: () => { state.file = file; byId('file').value = file; show('treemap', () => treemap(row.node)); } }, 'retained objects');
  byId('selected').replaceChildren(el('strong', {}, row.label), ` ${row.class}, retained ${row.retained.text}`, map);
}

/** Shows what retains an object, or the object. */
function select(file, row) {
  state.selected = { file, node: row.node };
  describe(file, row);
  return showPane();
}

function showPane(name = state.pane ?? 'retainers') {
  state.pane = name;
  mark(byId('tabs'), name);
  return state.selected && trying(() => panes[name].show(state.selected));
}

function mark(list, name) {
  for (const tab of list.children) tab.setAttribute('aria-selected', String(tab.dataset.name === name));
}

function tabs(list, entries, chosen) {
  list.replaceChildren(...Object.entries(entries).map(([name, { title }]) => el('button', { type: 'button', role: 'tab', 'data-name': name, onclick: () => chosen(name) }, title)));
}

function show(name = state.view, how = views[name].show) {
  state.view = name;
  history.replaceState(null, '', `#${name}`);
  mark(byId('views'), name);
  const file = state.files[state.file];
  byId('about').textContent = `${file.total} in ${file.objects} objects`;
  for (const tool of ['filter-tool', 'objects-tool', 'base-tool']) byId(tool).hidden = !views[name].tools.includes(tool);
  byId('count').textContent = '';
  if (name === 'comparison' && file.other_session) {
    byId('count').textContent = 'These snapshots are not of one session: the columns of new and gone objects are wrong.';
  }
  return trying(how);
}

/** The Summary's choices: all objects, DevTools' filters, and what was born between the snapshots. */
function filters() {
  const born = state.files.slice(0, -1).map((file, place) => [`ids:${file.last_id}..${state.files[place + 1].last_id}`, `born between ${file.name} and ${state.files[place + 1].name}`]);
  const before = state.files.length > 1 ? [[`ids:0..${state.files[0].last_id}`, `born before ${state.files[0].name}`]] : [];
  const named = [['detached', 'retained by detached DOM nodes'], ['console', 'retained by the DevTools console'], ['event-handlers', 'retained by event handlers'], ['contexts', 'retained by contexts'], ['duplicates', 'duplicated strings']];
  byId('filter').replaceChildren(...[['', 'all objects'], ...before, ...born, ...named].map(([value, text]) => el('option', { value }, text)));
}

async function start() {
  state.files = await ask('files');
  const options = () => state.files.map((file, place) => el('option', { value: place }, file.name));
  byId('file').replaceChildren(...options());
  byId('base').replaceChildren(...options());
  state.file = state.files.length - 1;
  state.base = Math.max(0, state.file - 1);
  byId('file').value = state.file;
  byId('base').value = state.base;
  filters();
  const { search, comparison, ...rest } = views;
  tabs(byId('views'), { summary: rest.summary, ...(state.files.length > 1 ? { comparison } : {}), ...rest, search }, (name) => show(name));
  tabs(byId('tabs'), panes, (name) => showPane(name));
  mark(byId('tabs'), 'retainers');
  byId('file').onchange = () => { state.file = Number(byId('file').value); if (state.base === state.file) { state.base = state.file ? state.file - 1 : 1; byId('base').value = state.base; } show(); };
  byId('base').onchange = () => { state.base = Number(byId('base').value); show(); };
  byId('filter').onchange = () => show();
  let typed;
  byId('classes').oninput = () => { clearTimeout(typed); typed = setTimeout(() => show(), 200); };
  byId('search').onsubmit = (event) => { event.preventDefault(); show('search'); };
  document.addEventListener('keydown', (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === 'f') { event.preventDefault(); byId('text').focus(); byId('text').select(); }
  });
  const wanted = location.hash.slice(1);
  await show(views[wanted] && (wanted !== 'comparison' || state.files.length > 1) ? wanted : 'summary');
}

trying(start);
