// The page of a comparison: fills the sections from the data, with the chart and the flame graph of a report's page.

const page = JSON.parse(byId('data').textContent);
const several = page.confidence !== null;

const isNone = (change) => change.difference === 0 || !(change.low > 0 || change.high < 0);
const amount = (value, unit) => (unit === 'byte' ? bytesNode(value) : formatCount(value));
const signed = (value, unit) => `${value > 0 ? '+' : value < 0 ? '−' : ''}${unit === 'byte' ? formatBytes(Math.abs(value)) : formatCount(Math.abs(value))}`;

function differenceNode(change, unit) {
  if (isNone(change)) return 'none';
  const sign = change.difference > 0 ? '+' : '−';
  const part = formatShare(Math.abs(change.difference), change.before);
  const share = change.before === 0 ? 'new' : part.startsWith('<') ? part.replace('< ', `under ${sign}`) : `${sign}${part}`;
  return [el('span', { class: change.difference > 0 ? 'n more' : 'n less', title: unit === 'byte' ? exactBytes(change.difference) : undefined }, signed(change.difference, unit)), el('span', { class: 'share' }, ` ${share}`)];
}

// Columns of a change: before, after, difference and, of several runs, its interval.
function changeColumns(of, unit, title = '') {
  const named = (name) => (title ? `${title}, ${name}` : name.charAt(0).toUpperCase() + name.slice(1));
  const unitOf = typeof unit === 'function' ? unit : () => unit;
  const columns = [
    { title: named('before'), numeric: true, value: (row) => of(row).before, cell: (row) => amount(of(row).before, unitOf(row)) },
    { title: named('after'), numeric: true, value: (row) => of(row).after, cell: (row) => amount(of(row).after, unitOf(row)) },
    { title: named('difference'), numeric: true, value: (row) => (isNone(of(row)) ? 0 : Math.abs(of(row).difference)), cell: (row) => differenceNode(of(row), unitOf(row)) },
  ];
  if (several) columns.push({ title: named('interval'), numeric: true, value: (row) => of(row).low, cell: (row) => (of(row).low === of(row).high ? '–' : `${signed(of(row).low, unitOf(row))} to ${signed(of(row).high, unitOf(row))}`) });
  return columns;
}

function summary() {
  byId('program').textContent = page.program || 'unnamed program';
  byId('bar-name').textContent = 'heaplab';
  byId('bar-name').title = page.writer;
  const runs = page.sides.map((side) => `${side.name}: ${side.runs.map((run) => run.path).join(', ')}`);
  byId('facts').replaceChildren(...runs.map((fact) => el('span', {}, fact)));
  byId('notices').replaceChildren(...page.warnings.map((warning) => el('p', { class: 'notice', role: 'note' }, warning)));
  const [first, ...rest] = page.verdict.sentences;
  byId('lead').replaceChildren(el('strong', {}, first), ` ${rest.join(' ')}`);
  const rows = page.figures;
  return [sortable('The whole run', [{ title: 'What', class: 'wide', value: (row) => row.name }, ...changeColumns((row) => row, (row) => row.unit)], rows, { first: 40, noun: 'figure' })];
}

function timeSection() {
  const drawn = page.sides.filter((side) => side.drawn.timeline.at.length > 0);
  if (drawn.length === 0) return [empty('Nothing happened in either recording.')];
  const live = Math.max(...drawn.flatMap((side) => side.drawn.timeline.max_bytes));
  const resident = drawn.flatMap(({ drawn: { timeline, totals } }) => [...timeline.samples.resident_bytes, totals.resident_is_kernels ? totals.resident_peak_bytes : 0]);
  const made = drawn.map((side) => new TimelineChart(side.drawn));
  const longest = Math.max(...made.map((chart) => chart.end));
  const sameAxis = made.every((chart) => chart.line.axis === made[0].line.axis);
  const charts = drawn.map((side, index) => {
    const chart = made[index];
    chart.least = [live, Math.max(live, ...resident)];
    if (sameAxis) chart.showTo(longest);
    return el('div', {}, el('h3', {}, `${side.name.charAt(0).toUpperCase()}${side.name.slice(1)}`), chart.controls, chart.box, chart.readout);
  });
  const parts = [el('div', { class: 'pair' }, ...charts)];
  if (page.sides.some((side) => side.runs.length > 1)) parts.push(note('Of each side the first recording is drawn.'));
  return parts;
}

function findingsSection() {
  if (page.findings.length === 0) return [empty('Nothing was found on either side that would be worth changing.')];
  const order = ['new', 'more', 'moved', 'less', 'gone', 'same'];
  const columns = [
    { title: 'Became', value: (row) => order.indexOf(row.became), cell: (row) => el('strong', {}, row.became) },
    { title: 'Finding', class: 'wide', value: (row) => row.title, cell: (row) => [row.title, row.moved_from ? el('span', { class: 'where' }, `before in ${row.moved_from}`) : null] },
    { title: 'Kind', value: (row) => row.kind },
    ...changeColumns((row) => row.needed_bytes, 'byte', 'Needed'),
    { title: 'Over the run', numeric: true, value: (row) => Math.abs(row.total_bytes.difference), cell: (row) => differenceNode(row.total_bytes, 'byte') },
  ];
  if (several) columns.push({ title: 'Runs', numeric: true, hint: 'In how many runs before and after it was found', value: (row) => row.runs[1], cell: (row) => `${row.runs[0]} and ${row.runs[1]}` });
  return [sortable('Findings', columns, page.findings, { first: 15, noun: 'finding' })];
}

// The flame graph whose colours say whether a function holds more or less, with whatever it calls.
class DifferenceGraph extends FlameGraph {
  column(title) { return this.page.flame.values[this.page.flame.measures.findIndex((measure) => measure.title === title)]; }

  // The columns before and after of what is shown: the same words end all four titles.
  both() {
    if (this.shown !== this.measure) {
      const { title } = this.page.flame.measures[this.measure];
      const of = title.slice(title.indexOf(': '));
      this.sides = ['Before', 'After'].map((side) => this.column(`${side}${of}`));
      this.shown = this.measure;
    }
    return this.sides;
  }

  change(node) {
    const [before, after] = this.both().map((values) => values?.[node] ?? 0);
    return { before, after, difference: after - before };
  }

  fill(node, fills, colour) {
    const { before, after, difference } = this.change(node);
    const share = Math.abs(difference) / Math.max(1, before, after);
    if (share < 0.01) return colour('--even');
    return colour(`--${difference > 0 ? 'more' : 'less'}-${share > 0.5 ? 3 : share > 0.1 ? 2 : 1}`);
  }

  moduleColours() {
    const key = (kind, text) => el('span', { class: 'key' }, el('span', { class: `swatch ${kind}`, 'aria-hidden': 'true' }), text);
    this.colourOf = new Map();
    this.modulesLegend = el('p', { class: 'legend' }, key('more', 'more after'), key('less', 'less after'), key('even', 'the same to a hundredth'));
  }

  read(node) {
    super.read(node);
    const { before, after, difference } = this.change(node);
    this.readout.append(`; ${formatMeasure(before, this.unit)} before, ${formatMeasure(after, this.unit)} after (${signed(difference, this.unit)})`);
  }
}

function flameSection() {
  if (!page.flame || page.flame.parent.length < 2) return [empty('No stack differs, or none was recorded.')];
  const graph = new DifferenceGraph(page);
  return [note('Widths are of what is chosen; colours compare before and after of a function with all that it calls. “Grew” and “shrank” add up stacks in one direction, so that a difference that another hides is seen.'),
    graph.controls, graph.modulesLegend, graph.window, graph.readout, graph.functions];
}

function presence(row) {
  return row.presence === 'both' ? null : el('span', { class: 'where' }, row.presence);
}

function functionsSection() {
  if (page.functions.length === 0) return [empty('No function differs.')];
  return [sortable('Functions that ask', [
    { title: 'Function', class: 'wide', value: (row) => row.function, cell: (row) => [el('code', {}, row.function || '(no stack recorded)'), presence(row)] },
    ...changeColumns((row) => row.live_bytes, 'byte', 'Live'),
    { title: 'Requests', numeric: true, value: (row) => Math.abs(row.requests.difference), cell: (row) => differenceNode(row.requests, 'request') },
    { title: 'Asked for', numeric: true, value: (row) => Math.abs(row.requested_bytes.difference), cell: (row) => differenceNode(row.requested_bytes, 'byte') },
    { title: 'Live at the end', numeric: true, value: (row) => Math.abs(row.end_bytes.difference), cell: (row) => differenceNode(row.end_bytes, 'byte') },
  ], page.functions, { first: 20, noun: 'function' }), ...leftOut('function')];
}

function lineWords(line) {
  if (line.before === line.after) return `line ${line.before}`;
  if (line.before === null) return `line ${line.after} (new)`;
  return line.after === null ? `line ${line.before} (gone)` : `line ${line.before} → ${line.after}`;
}

function stackDetails(row) {
  const lines = row.lines.filter((line) => (line.before ?? line.after) > 0);
  return el('div', {}, el('ol', { class: 'stack' }, ...row.stack.map((name, index) => el('li', {}, el('code', {}, name), index === 0 && lines.length ? el('span', { class: 'where' }, lines.map(lineWords).join(', ')) : null))),
    row.inlined ? note('A function of it was inlined on one side.') : null);
}

function stacksTable() {
  if (page.stacks.length === 0) return [empty('No stack differs.')];
  return [sortable('Stacks', [
    { title: 'Stack', class: 'wide', value: (row) => row.stack.join(' '), cell: (row) => (row.stack.length === 0 ? 'no stack recorded' : [lazyDetails([el('span', { class: 'code' }, row.stack.slice(0, 4).join(' ← '))], () => stackDetails(row)), presence(row)]) },
    ...changeColumns((row) => row.live_bytes, 'byte', 'Live'),
    { title: 'Requests', numeric: true, value: (row) => Math.abs(row.requests.difference), cell: (row) => differenceNode(row.requests, 'request') },
  ], page.stacks, { first: 20, noun: 'stack' }), ...leftOut('stack')];
}

function sizesTable() {
  if (page.sizes.length === 0) return [empty('No size differs.')];
  return [sortable('Sizes asked for', [
    { title: 'Size', numeric: true, value: (row) => row.size_bytes, cell: (row) => `${formatCount(row.size_bytes)} B` },
    ...changeColumns((row) => row.requests, 'request', 'Requests'),
    { title: 'Live', numeric: true, value: (row) => Math.abs(row.live_bytes.difference), cell: (row) => differenceNode(row.live_bytes, 'byte') },
  ], page.sizes, { first: 20, noun: 'size' }), ...leftOut('size')];
}

function leftOut(noun) {
  const more = page.left_out[noun] ?? 0;
  return more === 0 ? [] : [note(`${plural(more, `further ${noun}`)} with smaller differences not listed; heaplab compare --json has all.`)];
}

function aboutSection() {
  return [sortable('Recordings', [
    { title: 'Side', value: (row) => row.side },
    { title: 'File', class: 'wide', value: (row) => row.path },
    { title: 'Program', class: 'wide', value: (row) => row.program },
    { title: 'Allocator', value: (row) => row.allocator || 'not known' },
    { title: 'Stacks', numeric: true, value: (row) => row.stack_depth, cell: (row) => (row.stack_depth ? `${row.stack_depth} frames` : 'none') },
    { title: 'Events', numeric: true, value: (row) => row.events, cell: (row) => formatCount(row.events) },
    { title: 'Compared at', numeric: true, value: (row) => row.moment_ns, cell: (row) => timeNode(row.moment_ns) },
  ], page.sides.flatMap((side) => side.runs.map((run) => ({ ...run, side: side.name }))), { first: 40, noun: 'recording' })];
}

const SECTIONS = [['summary', 'Summary', summary], ['time', 'Time', timeSection], ['findings', 'Findings', findingsSection], ['flame', 'Flame graph', flameSection],
  ['functions', 'Functions', functionsSection], ['stacks', 'Stacks', stacksTable], ['sizes', 'Sizes', sizesTable], ['about', 'About', aboutSection]];

theme();
sectionLinks(SECTIONS);
SECTIONS.forEach(fillSection);
footer();
document.documentElement.dataset.ready = 'true';
