// App: which page is shown, by the address behind the #. A page has a root, and follows its address by `update`.

import { element, several } from "./elements.js";
import { ServiceError, get, keepToken } from "./service.js";
import { searchPage } from "./search_page.js";
import { hubsPage } from "./hubs_page.js";
import { itemPage } from "./item_page.js";
import { bankPage } from "./bank_page.js";

const PAGES = {
  search: { title: "Search", make: searchPage },
  hubs: { title: "Hubs", make: hubsPage },
  item: { title: "Item", make: itemPage },
  bank: { title: "Bank", make: bankPage },
};

const main = document.getElementById("main");
let shown = { name: null, page: null };

/** What every page is given: what is served, and ways to tell the reader something. */
const shell = { about: null, tell, refreshAbout };

function tell(text, isProblem = false) {
  const notice = element("p", { class: isProblem ? "notice bad" : "notice" }, text);
  document.getElementById("notices").append(notice);
  setTimeout(() => notice.remove(), 6000);
}

async function refreshAbout() {
  shell.about = await get("/v1/about");
  const { name, items, version } = shell.about;
  document
    .getElementById("served")
    .replaceChildren(
      element("bdi", {}, name),
      ` · ${several(items, "item")} · correction `,
      element("b", { id: "version" }, version),
    );
}

/** Read an address such as #/search?text=cake. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const known = Object.hasOwn(PAGES, name) ? name : "search";
  return { name: known, id: decoded(rest.join("/")), parameters: new URLSearchParams(query) };
}

/** What somebody typed may not be an encoded text: then it is taken as it is. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show() {
  if (location.hash === "#main") return; // the skip link
  const { name, id, parameters } = route();
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.getAttribute("href") === `#/${name}`;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const isNew = shown.name !== name;
  if (isNew) {
    shown.page?.close?.();
    shown = { name, page: PAGES[name].make(shell) };
    main.replaceChildren(shown.page.root);
  }
  document.title = `${PAGES[name].title} · ${shell.about.name} · unhub`;
  shown.page.update({ id, parameters });
  if (isNew && document.activeElement !== document.body) main.focus({ preventScroll: true });
}

function askForToken(start) {
  const field = element("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const form = element(
    "form",
    { class: "card narrow" },
    element("h1", {}, "This service asks for a token"),
    element("label", { for: "token" }, "Token"),
    field,
    element("p", { class: "note" }, "It is kept until you close this tab. Whoever started the service knows it."),
    element("button", { type: "submit", class: "primary" }, "Open"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(field.value.trim());
    start();
  });
  main.replaceChildren(form);
  field.focus();
}

async function start() {
  try {
    await refreshAbout();
  } catch (error) {
    if (error instanceof ServiceError && error.status === 401) return askForToken(start);
    const again = element("button", { type: "button", on: { click: start } }, "Try again");
    return main.replaceChildren(
      element("div", { class: "problem", role: "alert" }, element("p", {}, error.message), again),
    );
  }
  shown = { name: null, page: null };
  window.onhashchange = show;
  return show();
}

start();
