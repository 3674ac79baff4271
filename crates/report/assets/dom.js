// Building blocks. Names from a recording (functions, paths, arguments) are data from elsewhere: they reach the page as
// text nodes and attributes only, never as markup.

const SVG = 'http://www.w3.org/2000/svg';
const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'width%') node.style.width = `${value}%`;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function bytesNode(value) {
  return el('span', { class: 'n', title: exactBytes(value) }, formatBytes(value));
}

function timeNode(ns) {
  return el('span', { class: 'n', title: `${formatCount(ns)} ns` }, formatTime(ns));
}

function note(...children) {
  return el('p', { class: 'note' }, ...children);
}

function empty(...children) {
  return el('p', { class: 'empty' }, ...children);
}

// A bar behind or beside a number: `share` of 1 fills the cell.
function barNode(share, kind = 'live') {
  const percent = Math.max(share > 0 ? 0.6 : 0, Math.min(100, share * 100));
  return el('span', { class: 'bar-track', 'aria-hidden': 'true' }, el('span', { class: `bar-fill ${kind}`, 'width%': percent }));
}

// A row of choices of which one holds (radio buttons, so that arrows work).
function choice(label, options, chosen, onchange) {
  choice.made = (choice.made ?? 0) + 1;
  const name = `choice-${choice.made}`;
  const inputs = options.map(([value, text, hint]) =>
    el('label', { title: hint }, el('input', { type: 'radio', name, value, checked: value === chosen, onchange: () => onchange(value) }), el('span', {}, text)));
  return el('fieldset', { class: 'choice' }, el('legend', {}, label), ...inputs);
}

// A table whose columns sort. A column: { title, value(row), cell(row)?, numeric?, hint?, class? }. Opens with `first` rows.
function sortable(caption, columns, rows, { first = 20, sortBy = null, noun = 'row' } = {}) {
  const state = { column: sortBy, descending: true, all: rows.length <= first };
  const body = el('tbody');
  const heads = columns.map((column, index) => {
    const button = el('button', { type: 'button', title: column.hint, onclick: () => sort(index) }, column.title);
    return el('th', { scope: 'col', class: classOf(column) }, button);
  });
  const more = el('button', { type: 'button', class: 'quiet', hidden: state.all, onclick: () => { state.all = true; draw(); } });

  function classOf(column) {
    return [column.numeric ? 'num' : '', column.class ?? ''].join(' ').trim();
  }
  function sort(index) {
    state.descending = state.column === index ? !state.descending : Boolean(columns[index].numeric);
    state.column = index;
    draw();
  }
  function draw() {
    const order = [...rows];
    if (state.column !== null) order.sort((a, b) => compare(columns[state.column].value(a), columns[state.column].value(b)) * (state.descending ? -1 : 1));
    heads.forEach((head, index) => head.setAttribute('aria-sort', index !== state.column ? 'none' : state.descending ? 'descending' : 'ascending'));
    const shown = state.all ? order : order.slice(0, first);
    body.replaceChildren(...shown.map((row) => el('tr', {}, ...columns.map((column) => cellOf(column, row)))));
    more.hidden = state.all;
    more.textContent = `Show all ${plural(rows.length, noun)}`;
  }
  function cellOf(column, row) {
    const content = column.cell ? column.cell(row) : String(column.value(row));
    return el('td', { class: classOf(column) }, ...[content].flat());
  }
  draw();
  const table = el('table', {}, el('caption', {}, caption), el('thead', {}, el('tr', {}, ...heads)), body);
  return el('div', { class: 'table-block' }, scrolling(caption, table), more);
}

// A wide table scrolls by itself; only where it must is it a stop of the keyboard.
function scrolling(caption, table) {
  const box = el('div', { class: 'scroll', role: 'region', 'aria-label': caption }, table);
  new ResizeObserver(() => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute('tabindex');
  }).observe(box);
  return box;
}

function compare(a, b) {
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
}

// A call stack, innermost first. `frames` is the page's table, `indices` the stack's rows in it.
function stackNode(frames, indices, first = 12) {
  if (indices.length === 0) return empty('No stack was recorded for this.');
  const item = (index) => {
    const frame = frames[index] ?? { label: '?', module: '', place: '' };
    const where = [frame.place, frame.module].filter((text) => text && !frame.label.startsWith(text)).join(' · ');
    return el('li', {}, el('code', { title: frame.label }, shortName(frame.label)), where ? el('span', { class: 'where' }, where) : null, sourceNode(frame));
  };
  const list = el('ol', { class: 'stack' }, ...indices.slice(0, first).map(item));
  if (indices.length <= first) return list;
  const button = el('button', { type: 'button', class: 'quiet', onclick: () => { list.append(...indices.slice(first).map(item)); button.remove(); } },
    `${plural(indices.length - first, 'further frame')}`);
  return el('div', {}, list, button);
}

// The lines around a frame's place, where the page holds them.
function sourceNode(frame) {
  const excerpt = page.sources?.excerpts[frame.source];
  if (!excerpt) return null;
  return lazyDetails([el('span', { class: 'where' }, excerpt.changed ? 'source, as it is since the file was changed after the recording began' : 'source')], () => el('pre', { class: 'source' },
    ...excerpt.lines.map((text, index) => el('span', { class: excerpt.first_line + index === excerpt.line ? 'hit' : '' }, `${String(excerpt.first_line + index).padStart(5)}  ${text}\n`))));
}

// The stack in one line, for a table row.
function stackLine(frames, indices, count = 4) {
  return indices.slice(0, count).map((index) => (frames[index] ? shortName(frames[index].label) : '?')).join(' ← ');
}

// A stack as a table cell: one line that opens.
function stackCell(frames, indices) {
  return indices.length === 0 ? 'no stack recorded' : lazyDetails([el('span', { class: 'code' }, stackLine(frames, indices))], () => stackNode(frames, indices));
}

// Details whose content is made when first opened: hundreds of stacks cost nothing until one is looked at.
function lazyDetails(summary, make, open = false) {
  const details = el('details', {}, el('summary', {}, ...summary));
  details.addEventListener('toggle', () => { if (details.open && details.children.length === 1) details.append(make()); });
  details.open = open;
  return details;
}

// Runs `draw` now and whenever the width of `node` changes, or the colours do.
function redrawn(node, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (node.clientWidth !== width && node.clientWidth > 0) {
      width = node.clientWidth;
      draw();
    }
  }).observe(node);
  document.addEventListener('themechange', draw);
}

// Sections of a page: [id, label, make]. One broken section must not take the others with it; it says so where it would
// have stood.
function fillSection([id, , make]) {
  try {
    byId(`${id}-body`).replaceChildren(...make(page));
  } catch (error) {
    console.error(error);
    byId(`${id}-body`).replaceChildren(el('p', { class: 'notice' }, `This section could not be drawn: ${error.message}`));
  }
}

function sectionLinks(sections) {
  byId('nav').replaceChildren(...sections.map(([id, label]) => el('a', { href: `#${id}` }, label)));
}

function footer() {
  byId('footer').textContent = `Made by ${page.writer}. Everything is in this file; nothing is loaded from elsewhere.`;
}
