// Asks for the next reading every second, and keeps what the reader opened, closed and chose.
"use strict";
const main = document.querySelector("main");
const state = document.getElementById("state");
const chosen = new Map();
const moment = { at: "", since: "" };
let marks = "", timer;

document.addEventListener("click", event => {
  if (event.target.tagName !== "BUTTON") return;
  moment[event.target.name] = event.target.value;
  clearTimeout(timer);
  next();
});

// The names from the process inwards. They are not in the page a second time: deep paths would fill
// it.
function key(node) {
  const names = [];
  for (; node; node = node.parentElement.closest("details, section"))
    names.push(node.querySelector("h2, .name").textContent);
  return names.reverse().join("/");
}

document.addEventListener("toggle", event => {
  if (event.target.tagName !== "DETAILS") return;
  if (event.target.dataset.fresh === undefined) chosen.set(key(event.target), event.target.open);
  delete event.target.dataset.fresh;
}, true);

async function next() {
  const asked = new URLSearchParams(moment).toString();
  // The reader may choose another moment meanwhile.
  const isStale = () => asked !== new URLSearchParams(moment).toString();
  try {
    const answer = await fetch(`body?${asked}`, { cache: "no-store" });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    if (isStale()) return;
    main.innerHTML = text;
    const fresh = main.querySelector("nav");
    fresh?.remove();
    // Only if the buttons change: a click on a button that is replaced under it is lost.
    if (marks !== (fresh?.outerHTML ?? "")) {
      marks = fresh?.outerHTML ?? "";
      document.querySelector("header > nav")?.remove();
      if (fresh) document.querySelector("header").append(fresh);
    }
    for (const node of main.querySelectorAll("details")) {
      const open = chosen.size ? chosen.get(key(node)) : undefined;
      // A node that is open when it is made tells so later; that is no choice of the reader's.
      if (open ?? node.open) node.dataset.fresh = "";
      if (open !== undefined) node.open = open;
    }
    state.textContent = new Date().toLocaleTimeString();
  } catch (error) {
    if (isStale()) return;
    // A mark of which the program keeps nothing any more.
    moment.at = moment.since = "";
    state.textContent = error.message;
  }
  timer = setTimeout(next, 1000);
}
next();
