// Findings in the order of the report, with what to do about each. The allocator chosen decides which figures stand
// there: what is free on one is waste on another.

const ALL = 'all';
// The words of a finding's kind.
function kindOf(page, finding) {
  return page.kinds.find((kind) => kind.kind === finding.kind);
}

// Whether a collector frees what the program drops: then nothing that malloc's users change is looked for.
function isCollected({ recording }) {
  return ['noticed at a collection', 'by reachability'].includes(recording.death_rule);
}

// Findings on the first screen.
const FIRST = 10;

function findingsSection(page) {
  const { findings } = page;
  const parts = findings.length === 0
    ? [empty(isCollected(page) ? 'A collector frees what this program drops: slop, slow growth, churn and leaks of malloc do not apply. The holders of the peak and the needs of other heaps stand below.'
      : 'Nothing was found that would be worth changing: no requests just over a size class, no slow buffer growth, no heavy churn and no leaks above the thresholds.')]
    : findingsList(page);
  if (page.uses_its_slop.length > 0) parts.push(usesItsSlop(page));
  return parts;
}

// Brings the finding of the address into sight.
function showFinding() {
  const place = byId(`finding-${choices.get('finding')}`);
  if (!place) return;
  place.firstElementChild.open = true;
  place.scrollIntoView();
}

function findingsList(page) {
  const { findings } = page;
  const state = { kind: choices.get('kind') ?? ALL, allocator: choices.get('cost') ?? ALL, all: false };
  const linked = Number(choices.get('finding'));
  const shown = el('p', { class: 'note', 'aria-live': 'polite' });
  const list = el('ol', { class: 'findings' });
  const more = el('button', { type: 'button', class: 'quiet', onclick: () => { state.all = true; draw(); } });
  const draw = () => {
    const passing = findings.map((finding, index) => ({ finding, rank: index + 1, cost: costOn(finding, state.allocator) }))
      .filter(({ finding, cost }) => cost && (state.kind === ALL || finding.kind === state.kind))
      .map((item) => ({ ...item, inside: insideRange(item.finding) }));
    const outside = passing.filter(({ inside }) => inside?.isEmpty).length;
    if (state.allocator !== ALL) passing.sort((a, b) => b.cost.peak_bytes - a.cost.peak_bytes || b.cost.total_bytes - a.cost.total_bytes);
    // What is chosen by kind or allocator is wanted, however small.
    const wanted = state.all || state.kind !== ALL || state.allocator !== ALL;
    const first = wanted ? passing : passing.filter(({ finding, inside, rank }) => rank === linked || (!finding.minor && !inside?.isEmpty)).filter(({ rank }, at) => at < FIRST || rank === linked);
    list.replaceChildren(...first.map((item) => findingNode(page, item, item.rank === linked || (!linked && item === first[0]))));
    const small = passing.filter(({ finding }) => finding.minor).length;
    more.hidden = first.length === passing.length;
    more.textContent = `Show ${formatCount(passing.length - first.length)} more${small > 0 ? `, ${formatCount(small)} of them under 0.1 % of the peak` : ''}`;
    const order = state.allocator === ALL ? page.findings_order : `By the bytes at the peak on ${state.allocator}, then by those over the run.`;
    shown.textContent = passing.length === findings.length ? `${plural(findings.length, 'finding')}. ${order}` : `${formatCount(passing.length)} of ${plural(findings.length, 'finding')} shown.`;
    if (lens.range) shown.textContent += ` In the range ${rangeWords(page.timeline)}: ${outside === 0 ? 'all have calls inside' : `${formatCount(outside)} have none inside and are not on the first screen`}. Their figures are of the whole run; what their call paths did inside stands beside them.`;
  };
  const { kinds } = page;
  const allocators = [...new Set(findings.flatMap((finding) => finding.costs.map((cost) => cost.allocator)))];
  const controls = el('div', { class: 'controls' });
  if (kinds.length > 1) {
    const counted = ({ kind, name }) => `${name} ${findings.filter((finding) => finding.kind === kind).length}`;
    controls.append(choice('Kind', [[ALL, `All ${findings.length}`], ...kinds.map((kind) => [kind.kind, counted(kind), kind.hint])], state.kind, (kind) => choices.set({ kind: kind === ALL ? null : kind, finding: null })));
  }
  if (allocators.length > 1) controls.append(choice('Cost on', [[ALL, 'As ranked'], ...allocators.map((name) => [name, name])], state.allocator, (name) => choices.set({ cost: name === ALL ? null : name, finding: null })));
  draw();
  return [controls, shown, list, more];
}

// What a finding costs on the allocator chosen; undefined: nothing there.
function costOn(finding, allocator) {
  return finding.costs.find((cost) => cost.allocator === (allocator === ALL ? finding.basis : allocator)) ?? (allocator === ALL ? finding.costs[0] ?? { allocator: '', peak_bytes: 0, total_bytes: 0 } : undefined);
}

// What the call paths of a finding's stacks did inside the range; null: no range, or none of them can be told apart.
function insideRange(finding) {
  if (!lens.range) return null;
  const nodes = new Set(finding.stacks.map((share) => share.node).filter((node) => node !== null && page.flame.frame[node] >= 0));
  if (nodes.size === 0) return null;
  const [asked, live] = ['asked', 'live'].map((what) => lens.ranges.ofNodes(nodes, what, lens.range));
  return { asked, live, isEmpty: asked.objects === 0 && live.objects === 0, paths: nodes.size };
}

function insideNode({ asked, live, paths }) {
  return el('span', { class: 'inside' }, `inside the range ${paths === 1 ? 'its call path' : `its ${formatCount(paths)} call paths`} asked for `, bytesNode(asked.bytes), ` in ${plural(asked.objects, 'request')}; live at its end `, bytesNode(live.bytes));
}

function findingNode(page, { finding, rank, cost, inside }, open) {
  const kind = kindOf(page, finding);
  const meta = [el('span', { class: 'chip', title: kind.hint }, kind.name), el('span', {}, plural(finding.count, finding.count_of))];
  meta.push(el('span', {}, `${finding.elsewhere && cost.allocator === finding.basis ? 'not as recorded: ' : ''}on ${cost.allocator || 'any allocator'}`), el('span', {}, `${finding.confidence} confidence`));
  if (inside) meta.push(insideNode(inside));
  const head = el('summary', {}, el('span', { class: 'rank' }, String(rank)), el('span', { class: 'finding-title' }, finding.title),
    el('span', { class: 'finding-bytes' }, wasteNode(cost.peak_bytes, 'at peak'), wasteNode(cost.total_bytes, kind.total_bytes)),
    el('span', { class: 'finding-meta' }, ...meta));
  const body = findingBody(page, finding);
  body.append(el('p', { class: 'note' }, el('a', { href: choices.linkTo('findings', { finding: rank }) }, 'Link to this finding')));
  return el('li', { id: `finding-${rank}` }, el('details', { open }, head, body));
}

// Two figures that must not be compared with one another, so each says what it is.
function wasteNode(bytes, are) {
  return el('span', { class: bytes > 0 ? 'waste-figure' : 'waste-figure none' }, bytes > 0 ? bytesNode(bytes) : 'nothing', el('span', { class: 'muted' }, ` ${are}`));
}

function findingBody(page, finding) {
  const pairs = [];
  const { saving } = finding;
  if (saving.peak_bytes > 0) pairs.push(['Would save at peak', bytesNode(saving.peak_bytes)]);
  if (saving.total_bytes > 0) pairs.push([`Would save ${kindOf(page, finding).total_bytes}`, bytesNode(saving.total_bytes)]);
  if (saving.copied_bytes > 0) pairs.push(['Would no longer copy or zero', bytesNode(saving.copied_bytes)]);
  if (saving.requests > 0) pairs.push(['Requests it would spare', formatCount(saving.requests)]);
  pairs.push(...finding.facts);
  const body = el('div', { class: 'finding-body' },
    finding.advice ? el('p', { class: 'advice' }, ...unbroken(finding.advice)) : null,
    finding.saved ? el('p', { class: 'saved' }, finding.saved) : null,
    finding.what_if ? el('p', { class: 'note try' }, 'Try it: ', el('code', {}, finding.what_if)) : null,
    el('dl', { class: 'pairs' }, ...pairs.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, ...(typeof value === 'string' ? unbroken(value) : [value]))))),
    finding.confidence_reason ? note(`Confidence is ${finding.confidence}: ${finding.confidence_reason}.`) : null);
  if (finding.sizes.length > 0) body.append(sizesTable(finding));
  if (finding.costs.length > 1) body.append(costTable(finding));
  body.append(...findingStacks(page, finding));
  return body;
}

// What a size becomes stays on one line: 4,368 -> 5,120.
function unbroken(text) {
  return text.split(/([\d,]+ (?:->|→) [\d,]+(?: B)?)/).map((part, index) => (index % 2 === 1 ? el('span', { class: 'n' }, part) : part));
}

// One mistake, several sizes: each with its part of the saving.
function sizesTable(finding) {
  return sortable(`Its sizes, on ${finding.basis}`, [
    { title: 'Request', numeric: true, value: (row) => row.request, cell: (row) => `${formatCount(row.request)} B` },
    { title: 'Becomes', numeric: true, value: (row) => row.usable, cell: (row) => `${formatCount(row.usable)} B` },
    { title: 'Costs nothing', numeric: true, value: (row) => row.free_request, cell: (row) => `${formatCount(row.free_request)} B` },
    { title: 'Requests', numeric: true, value: (row) => row.count, cell: (row) => formatCount(row.count) },
    { title: 'Live at peak', numeric: true, value: (row) => row.peak_count, cell: (row) => formatCount(row.peak_count) },
    { title: 'Would save at peak', numeric: true, value: (row) => row.saving_peak_bytes, cell: (row) => bytesNode(row.saving_peak_bytes) },
    { title: 'Over the run', numeric: true, value: (row) => row.saving_total_bytes, cell: (row) => bytesNode(row.saving_total_bytes) },
  ], finding.sizes, { first: 8, noun: 'size' });
}

function costTable(finding) {
  return el('div', { class: 'narrow' }, sortable('Waste now, by allocator', [
    { title: 'Allocator', value: (row) => row.allocator },
    { title: 'At peak', numeric: true, value: (row) => row.peak_bytes, cell: (row) => bytesNode(row.peak_bytes) },
    { title: 'Over the run', numeric: true, value: (row) => row.total_bytes, cell: (row) => bytesNode(row.total_bytes) },
  ], finding.costs, { noun: 'allocator' }));
}

function findingStacks(page, finding) {
  const stacks = finding.stacks.filter((share) => share.frames.length > 0);
  if (stacks.length === 0) return [empty('No stack was recorded for this, so the place in the code is not known.')];
  const shareText = (share) => `${plural(share.count, finding.count_of)}, ${formatBytes(share.bytes)} ${kindOf(page, finding).share_bytes}`;
  // All of a finding's stacks begin alike; the line shows where they part.
  let alike = 0;
  while (stacks.length > 1 && stacks.every((share) => share.frames.length > alike + 1 && share.frames[alike] === stacks[0].frames[alike])) alike += 1;
  const told = (frames) => `${alike > 0 ? '… ← ' : ''}${stackLine(page.frames, frames.slice(alike), 3)}`;
  const parts = [el('h3', {}, stacks.length === 1 ? 'Asked for by' : `Asked for by, the largest of ${plural(finding.stack_count, 'stack')} first`)];
  stacks.forEach((share, index) => {
    const stack = () => stackNode(page.frames, share.frames);
    if (stacks.length === 1) parts.push(stack());
    else parts.push(lazyDetails([el('span', { class: 'code' }, told(share.frames)), el('span', { class: 'where' }, shareText(share))], stack, index === 0));
  });
  return parts;
}

function usesItsSlop(page) {
  return el('div', {}, el('h3', {}, 'Not waste: sites that use their slop'),
    note('These places ask how much of a block they may use (malloc_usable_size), so what the allocator gave beyond the request is not counted against them.'),
    sortable('Sites that read their usable size', [
      { title: 'Slop at peak', numeric: true, value: (row) => row.peak_slop_bytes, cell: (row) => bytesNode(row.peak_slop_bytes) },
      { title: 'Slop over the run', numeric: true, value: (row) => row.total_slop_bytes, cell: (row) => bytesNode(row.total_slop_bytes) },
      { title: 'Reads', numeric: true, value: (row) => row.reads, cell: (row) => formatCount(row.reads) },
      { title: 'Site', class: 'wide', value: (row) => stackLine(page.frames, row.frames), cell: (row) => stackCell(page.frames, row.frames) },
    ], page.uses_its_slop, { first: 8, sortBy: 0, noun: 'site' }));
}
