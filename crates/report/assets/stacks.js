// Where the bytes come from: the flame graph of a report, of the whole run or of the range chosen, seen from above, from
// below, by module, by thread or from one function, with that function's callers and callees.

const VIEWS = [
  ['down', 'Top down', 'Callers above, callees below'],
  ['up', 'Bottom up', 'The requesting function above, its callers below'],
  ['modules', 'By module', 'Neighbours of one module are one'],
  ['threads', 'By thread', 'The thread that asked above its stacks'],
  ['callers', 'Callers', 'Of the function chosen, callers below'],
  ['callees', 'Callees', 'Of the chosen function, with everything that it calls'],
];
const OF_FUNCTION = ['callers', 'callees'];
// Of the whole run, where ranges can answer for one thread.
const WHOLE_MEASURES = { peak: 'peak', end: 'live', asked: 'asked', temporary: 'temporary' };

function stacksSection(page) {
  if (!page.flame || page.flame.parent.length < 2) {
    return [empty('No stacks were recorded, so bytes cannot be told apart by place. Record with ', el('code', {}, '--stack-depth 64'), ' to see them here.')];
  }
  const graph = new StackGraph(page);
  const parts = [graph.controls, graph.modulesLegend, graph.window, graph.readout];
  if (page.flame.merged_nodes > 0) {
    parts.push(note(`To keep the page small, ${plural(page.flame.merged_nodes, 'place')} too small to see ${page.flame.merged_nodes === 1 ? 'is' : 'are'} drawn together as “(small)”; their bytes are counted.`));
  }
  parts.push(graph.butterfly, graph.functions);
  return parts;
}

// A measure's title as what is measured and its unit.
function words({ title }) {
  const at = title.lastIndexOf(', ');
  return [title.slice(0, at), title.slice(at + 2)];
}

class StackGraph extends FlameGraph {
  constructor(page) {
    super(page);
    this.buildViews();
    choices.on(['range', 'show', 'view', 'function', 'thread', 'wrappers', 'find', 'at'], () => this.follow());
    this.follow();
  }

  // The base class builds the first tree before this one has its views.
  makeTree() {
    this.paths ??= new Paths(this.page);
    this.state = this.chosen();
    return this.treeOf(this.state.view);
  }

  treeOf(view) {
    const { entries, focus, hides } = this.state;
    return derived(this.page, this.paths, entries, { view, focus, hides, threads: lens.ranges?.threads ?? [] });
  }

  whole() {
    const [first] = this.wholeMeasures(false);
    return derived(this.page, this.paths, first.entries(), { view: 'down', focus: -1, hides: true, threads: [] });
  }

  calls() { return this.state.view === 'down' ? this.tree : this.treeOf('down'); }

  // Seen from below, a stack ends at its outermost frame, which asked for nothing.
  ownOf(node) { return ['up', 'callers'].includes(this.state.view) ? 0 : super.ownOf(node); }

  // What the address asks for, as far as the page can show it.
  chosen() {
    const { page } = this;
    const thread = lens.ranges && lens.ranges.threads.length > 1 ? lens.ranges.threads.indexOf(choices.get('thread') ?? '') : -1;
    const focus = page.frames.findIndex((frame) => frame.label === choices.get('function'));
    let view = VIEWS.some(([name]) => name === choices.get('view')) ? choices.get('view') : 'down';
    if ((OF_FUNCTION.includes(view) && focus < 0) || (view === 'threads' && !lens.ranges)) view = 'down';
    const byThread = thread >= 0 || view === 'threads';
    const measures = lens.range ? rangeMeasures() : this.wholeMeasures(byThread);
    const measure = measures.find(({ key }) => key === choices.get('show')) ?? measures[0];
    const entries = measure.entries().filter(([, of]) => thread < 0 || of === thread);
    return { view, focus, thread, measures, measure, entries, hides: choices.get('wrappers') === null };
  }

  // The page's own measures; those by thread only where the numbers of ranges tell threads apart.
  wholeMeasures(byThread) {
    const { measures, values, parent } = this.page.flame;
    return measures.flatMap(({ title, unit, key }, index) => {
      const what = WHOLE_MEASURES[key];
      if (byThread && !what) return [];
      const entries = () => (byThread ? lens.ranges.entries(what, unit, null) : this.ownValues(values[index], parent));
      return [{ key: `${key}.${what ? unit : index}`, title, unit, entries }];
    });
  }

  ownValues(value, parent) {
    const own = [...value];
    for (let node = parent.length - 1; node > 0; node -= 1) own[parent[node]] -= value[node];
    return own.map((bytes, node) => [node, -1, bytes]).filter(([, , bytes]) => bytes > 0);
  }

  get unit() { return this.state.measure.unit; }

  measureTitle() {
    const { measure, thread } = this.state;
    return thread < 0 ? measure.title : `${measure.title}, of thread ${lens.ranges.threads[thread]}`;
  }

  buildControls() {
    const controls = super.buildControls();
    this.measureChoice = controls.firstElementChild;
    this.views = el('div', { class: 'controls' });
    this.measureChoice.after(this.views);
    this.butterfly = el('div', {});
    return controls;
  }

  searched() { choices.set({ find: this.search.value.trim() }, { replace: true }); }

  // The zoomed place is kept as the numbers of the frames that lead to it.
  zoom(node) {
    super.zoom(node);
    const path = [];
    for (let here = node; here !== 0; here = this.tree.parent[here]) path.push(this.tree.frame[here]);
    choices.set({ at: path.reverse().join('.') });
  }

  zoomedNode() {
    let node = 0;
    for (const frame of (choices.get('at') ?? '').split('.').filter(Boolean).map(Number)) {
      node = this.tree.children[node].find((child) => this.tree.frame[child] === frame);
      if (node === undefined) return 0;
    }
    return node;
  }

  buildViews() {
    const { state } = this;
    const views = VIEWS.filter(([name]) => (name !== 'threads' || (lens.ranges && lens.ranges.threads.length > 1)) && (!OF_FUNCTION.includes(name) || state.focus >= 0));
    const held = document.activeElement?.closest?.('.choice') ? document.activeElement.value : null;
    // What is shown and its unit are two choices: "Live at peak, bytes" is "Live at peak" in bytes.
    const [what, unit] = words(state.measure);
    const show = (wanted, of) => choices.set({ show: (state.measures.find((measure) => words(measure)[0] === wanted && words(measure)[1] === of) ?? state.measures.find((measure) => words(measure)[0] === wanted)).key });
    const all = [...new Set(state.measures.map((measure) => words(measure)[0]))];
    const units = state.measures.filter((measure) => words(measure)[0] === what).map((measure) => words(measure)[1]);
    this.measureChoice.replaceChildren(choice('Show', all.map((name) => [name, name]), what, (name) => show(name, unit)),
      ...(units.length > 1 ? [choice('In', units.map((name) => [name, name]), unit, (name) => show(what, name))] : []));
    const wrappers = el('input', { type: 'checkbox', checked: !state.hides, onchange: (event) => choices.set({ wrappers: event.target.checked ? 'shown' : null }) });
    this.views.replaceChildren(choice('View', views, state.view, (view) => choices.set({ view: view === 'down' ? null : view, at: null })),
      ...this.threadChoice(), el('label', { class: 'key', title: 'malloc, operator new, standard libraries: the innermost frames that only pass a request on' }, wrappers, 'allocator’s own frames'));
    if (held) [...this.views.querySelectorAll('input'), ...this.measureChoice.querySelectorAll('input')].find((input) => input.value === held && input.checked)?.focus();
  }

  threadChoice() {
    const threads = lens.ranges?.threads ?? [];
    if (threads.length < 2) return [];
    const select = el('select', { onchange: () => choices.set({ thread: select.value, at: null }) },
      el('option', { value: '' }, 'all'), ...threads.map((name, index) => el('option', { value: name, selected: index === this.state.thread }, name)));
    return [el('label', { class: 'key' }, 'Thread ', select)];
  }

  // Shows what the address asks for.
  follow() {
    const find = choices.get('find') ?? '';
    if (document.activeElement !== this.search) this.search.value = find;
    this.tree = this.makeTree();
    this.zoomed = this.zoomedNode();
    this.current = this.zoomed;
    this.reset.disabled = this.zoomed === 0;
    this.buildViews();
    this.find(find, find !== '' && find === choices.get('function'));
    this.fillFunctions();
    this.fillButterfly();
  }

  // A function chosen is found, and its callers and callees stand below.
  choose(frame) {
    if (frame >= this.page.frames.length) return super.choose(frame);
    const { label } = this.page.frames[frame];
    choices.set({ function: label, find: label });
    this.butterfly.scrollIntoView({ block: 'nearest' });
    return undefined;
  }

  key(event) {
    const frame = this.tree.frame[this.current];
    if (event.key === 'c' && !event.ctrlKey && !event.metaKey && frame >= 0) this.choose(frame);
    else super.key(event);
  }

  fillButterfly() {
    const { focus, entries, hides, measure } = this.state;
    if (focus < 0) {
      this.butterfly.replaceChildren();
      return;
    }
    const found = neighbours(this.paths, entries, focus, hides);
    const { label } = this.page.frames[focus];
    const amount = (value) => (measure.unit === 'byte' ? bytesNode(value) : formatMeasure(value, measure.unit));
    const name = (frame) => (frame === ROOT ? '(the outermost frame)' : frame === MERGED ? '(small)' : this.page.frames[frame].label);
    const cell = ({ frame }) => (frame < 0 ? name(frame) : el('button', { type: 'button', class: 'link code', title: name(frame), onclick: () => this.choose(frame) }, shortName(name(frame))));
    const table = (title, rows) => sortable(`${title}, ${this.measureTitle().toLowerCase()}`, [
      { title, class: 'wide', value: ({ frame }) => name(frame), cell },
      { title: 'Through this call', numeric: true, value: ({ value }) => value, cell: ({ value }) => amount(value) },
      { title: 'Share', numeric: true, value: ({ value }) => value, cell: ({ value }) => formatShare(value, found.total) },
    ], [...rows].map(([frame, value]) => ({ frame, value })), { first: 8, sortBy: 1, noun: title.toLowerCase().slice(0, -1) });
    const none = measure.title.charAt(0).toLowerCase() + measure.title.slice(1);
    this.butterfly.replaceChildren(el('h3', {}, 'Callers and callees of ', el('code', { title: label }, shortName(label))),
      found.total === 0 ? empty(`Nothing of it: ${none}.`) : el('p', {}, amount(found.total), ` with callees, of which `, amount(found.self), ' by itself. Recursion counts once, at the outermost call. ',
        el('button', { type: 'button', class: 'quiet', onclick: () => choices.set({ function: null, find: null, view: OF_FUNCTION.includes(choices.get('view')) ? null : choices.get('view') }) }, 'No function')),
      found.total === 0 ? '' : el('div', { class: 'pair' }, table('Callers', found.callers), table('Callees', found.callees)));
  }
}
