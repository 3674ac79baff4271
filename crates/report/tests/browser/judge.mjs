// What makes a page usable for people who see, point or read otherwise, as functions that list what is wrong.

// Runs in the page: text with too little contrast to what lies behind it (WCAG 2.2: 4.5, or 3 for large text).
export function contrastFaults() {
  const parse = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const linear = [r, g, b].map((channel) => channel / 255).map((channel) => (channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ratio = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (node) => {
    for (let here = node; here; here = here.parentElement) {
      const [r, g, b, alpha = 1] = parse(getComputedStyle(here).backgroundColor);
      if (alpha > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const faults = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility() || node.closest('script, style, noscript, button:disabled')) continue;
    const style = getComputedStyle(node);
    const colour = parse(node instanceof SVGElement ? style.fill : style.color);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const found = ratio(colour, behind(node));
    if (found < needed) faults.add(`${found.toFixed(2)} < ${needed}: ${node.tagName} “${text.data.trim().slice(0, 30)}”`);
  }
  const probe = document.body.appendChild(document.createElement('span'));
  const resolve = (name) => { probe.style.color = `var(${name})`; return parse(getComputedStyle(probe).color); };
  for (let index = 0; index < 7; index += 1) {
    const found = ratio(resolve('--flame-text'), resolve(`--flame-${index}`));
    if (found < 4.5) faults.add(`${found.toFixed(2)}: flame graph, colour ${index}`);
  }
  const found = ratio(resolve('--flame-found-text'), resolve('--flame-found'));
  if (found < 4.5) faults.add(`${found.toFixed(2)}: flame graph, found`);
  probe.remove();
  return [...faults];
}

// Walks through the page by Tab: each stop must be visible, have a name, and show that it has the focus.
export async function focusFaults(tab) {
  const faults = [];
  const reached = new Set();
  for (let step = 0; step < 300; step += 1) {
    await tab.keyboard.press('Tab');
    const stop = await tab.evaluate(() => {
      const node = document.activeElement;
      if (!node || node === document.body) return null;
      const shown = node.matches('.choice input') ? node.nextElementSibling : node;
      const style = getComputedStyle(shown);
      const box = shown.getBoundingClientRect();
      return {
        what: `${node.tagName}.${node.className?.baseVal ?? node.className} ${node.textContent.slice(0, 20)}`,
        section: node.closest('section, header')?.id ?? '',
        outlined: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
        inView: box.bottom > 0 && box.top < innerHeight && box.width > 0,
        covered: !node.closest('.bar, .skip') && box.bottom <= document.querySelector('.bar').getBoundingClientRect().bottom,
      };
    });
    if (!stop) break;
    reached.add(stop.section);
    if (!stop.outlined) faults.push(`no outline: ${stop.what}`);
    if (!stop.inView) faults.push(`not in view: ${stop.what}`);
    if (stop.covered) faults.push(`under the bar: ${stop.what}`);
  }
  for (const section of ['time', 'findings', 'stacks', 'replay', 'slop', 'sizes', 'end']) if (!reached.has(section)) faults.push(`not reached: ${section}`);
  return faults;
}

// Runs in the page: what a screen reader would miss.
export function structureFaults() {
  const faults = [];
  for (const landmark of ['header', 'main', 'nav[aria-label]', 'footer']) if (document.querySelectorAll(landmark).length !== 1) faults.push(`landmark ${landmark}`);
  if (document.querySelectorAll('h1').length !== 1) faults.push('one h1');
  let level = 1;
  for (const heading of document.querySelectorAll('main :is(h1, h2, h3, h4)')) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) faults.push(`heading skips: ${heading.textContent}`);
    level = own;
  }
  for (const section of document.querySelectorAll('section')) if (!document.getElementById(section.getAttribute('aria-labelledby'))) faults.push(`section ${section.id}`);
  for (const table of document.querySelectorAll('table')) if (!table.caption?.textContent) faults.push('table without caption');
  for (const head of document.querySelectorAll('th')) if (!head.scope) faults.push(`th without scope: ${head.textContent}`);
  for (const input of document.querySelectorAll('input')) if (!input.labels?.length) faults.push(`input without label: ${input.outerHTML}`);
  for (const chart of document.querySelectorAll('svg:not([aria-hidden]), canvas')) if (!chart.getAttribute('aria-label')) faults.push('chart without name');
  for (const button of document.querySelectorAll('button')) if (!button.hidden && !(button.getAttribute('aria-label') ?? button.textContent).trim()) faults.push('button without name');
  const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push(`id twice: ${id}`);
  return faults;
}
