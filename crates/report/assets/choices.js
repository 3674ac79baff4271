// What is chosen on the page, kept in the address behind '#': SECTION?name=value&name=value. A link to the page opens it as
// it was, and the browser's back button undoes a choice.

class Choices {
  constructor() {
    this.listeners = [];
    this.read();
    window.addEventListener('hashchange', () => this.changed(location.hash));
  }

  read(hash = location.hash) {
    const [section, query = ''] = hash.replace(/^#/, '').split('?');
    this.section = section;
    this.values = new Map(new URLSearchParams(query));
  }

  get(name) { return this.values.get(name) ?? null; }

  // Calls `listener` whenever one of `names` changes.
  on(names, listener) { this.listeners.push({ names, listener }); }

  // Chooses values (null: as in the beginning). What changes with every key pressed replaces the address of before.
  set(values, { section = this.section, replace = false } = {}) {
    const next = new Map(this.values);
    for (const [name, value] of Object.entries(values)) {
      if (value === null || value === '') next.delete(name);
      else next.set(name, String(value));
    }
    const hash = this.hash(section, next);
    if (hash === this.hash(this.section, this.values)) return;
    if (replace || hash === '') history.replaceState(null, '', hash || location.pathname);
    else location.hash = hash;
    this.changed(hash);
  }

  // The address of this page with other values.
  hash(section, values) {
    const query = new URLSearchParams([...values].sort(([a], [b]) => (a < b ? -1 : 1))).toString();
    return query || section ? `#${section}${query ? `?${query}` : ''}` : '';
  }

  linkTo(section, values) { return this.hash(section, new Map([...this.values, ...Object.entries(values)].map(([name, value]) => [name, String(value)]))); }

  changed(hash) {
    const before = { section: this.section, values: this.values };
    this.read(hash);
    const names = new Set([...before.values.keys(), ...this.values.keys()]);
    const other = [...names].filter((name) => before.values.get(name) !== this.values.get(name));
    this.notify(other);
    if (before.section !== this.section) this.show();
  }

  notify(changed) {
    for (const { names, listener } of this.listeners) if (names.some((name) => changed.includes(name))) listener();
  }

  // Brings the section of the address into sight. A section of its own name would do so by itself, one with values does not.
  show() {
    document.getElementById(this.section)?.scrollIntoView();
  }

  // Links within the page keep what is chosen.
  keepInLinks() {
    document.addEventListener('click', (event) => {
      const link = event.target.closest?.('a[href^="#"]');
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const [section, query = ''] = link.getAttribute('href').slice(1).split('?');
      event.preventDefault();
      this.set(Object.fromEntries(new URLSearchParams(query)), { section });
      const place = document.getElementById(section);
      place?.scrollIntoView();
      if (link.classList.contains('skip')) place?.focus();
    });
  }
}
