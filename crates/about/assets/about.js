// Asks for the next reading every second, and keeps what the reader opened or closed.
"use strict";
const main = document.querySelector("main");
const state = document.getElementById("state");
const chosen = new Map();

document.addEventListener("toggle", event => {
  const key = event.target.dataset?.key;
  if (key && event.target.dataset.fresh === undefined) chosen.set(key, event.target.open);
  delete event.target.dataset?.fresh;
}, true);

async function next() {
  try {
    const answer = await fetch("body", { cache: "no-store" });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    main.innerHTML = text;
    for (const node of main.querySelectorAll("details")) {
      const open = chosen.get(node.dataset.key);
      // A node that is open when it is made tells so later; that is no choice of the reader's.
      if (open ?? node.open) node.dataset.fresh = "";
      if (open !== undefined) node.open = open;
    }
    state.textContent = new Date().toLocaleTimeString();
  } catch (error) {
    state.textContent = error.message;
  }
  setTimeout(next, 1000);
}
next();
