// The choice of colours, kept where a page has storage.

const THEMES = [['auto', 'Auto', 'as the system'], ['light', 'Light', 'light'], ['dark', 'Dark', 'dark']];

function theme() {
  const button = byId('theme');
  let index = 0;
  try {
    index = Math.max(0, THEMES.findIndex(([name]) => name === localStorage.getItem('heaplab-theme')));
  } catch {
    // A page opened from a file may have no storage; the choice then lasts as long as the page.
  }
  const apply = () => {
    const [name, label, words] = THEMES[index];
    document.documentElement.dataset.theme = name;
    button.textContent = label;
    button.setAttribute('aria-label', `Colours: ${words}`);
    document.dispatchEvent(new Event('themechange'));
  };
  button.addEventListener('click', () => {
    index = (index + 1) % THEMES.length;
    apply();
    try {
      localStorage.setItem('heaplab-theme', THEMES[index][0]);
    } catch {
      // As above.
    }
  });
  for (const media of ['(prefers-color-scheme: dark)', 'print']) matchMedia(media).addEventListener('change', () => document.dispatchEvent(new Event('themechange')));
  apply();
}
