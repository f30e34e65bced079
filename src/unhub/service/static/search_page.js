// Search page: ask by text, sample, item or picture; raw and corrected beside each other; a strength that re-ranks.

import { count, element, said, several, short } from "./elements.js";
import { idFrom, searchAddress } from "./addresses.js";
import { callsPanel } from "./calls.js";
import { comparison } from "./hits.js";
import { asData, call, get, newestOnly } from "./service.js";

const RESULT_COUNTS = [10, 20, 50];
const SAMPLES_SHOWN = 6;
const SLIDER_PAUSE_MS = 60; // between two searches while the slider moves
const COMBINATIONS = {
  sa: "average their similarities (sa)",
  ra: "average their ranks (ra)",
  mf: "average their vectors (mf)",
  "ts-wf": "unusual descriptions weigh more (ts-wf)",
  head: "a trained head weighs them",
};

/** Return the lines of a text that say something. */
function linesOf(text) {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

export function searchPage(shell) {
  const { about } = shell;
  const can = about.can;
  let parameters = new URLSearchParams();
  let chosenPicture = null; // {name, data}: too long for an address

  const box = element("textarea", {
    id: "asked",
    rows: 1,
    enterkeyhint: "search",
    autocomplete: "off",
    spellcheck: "true",
    "aria-describedby": "asked-help",
    placeholder: can.text ? "birthday cake" : "",
  });
  const another = element("button", { type: "button", class: "quiet" }, "+ another description");
  const combine = element(
    "select",
    { id: "combine" },
    (can.combine ?? []).map((name) => element("option", { value: name }, COMBINATIONS[name] ?? name)),
  );
  const combineField = element(
    "p",
    { class: "field", hidden: true },
    element("label", { for: "combine" }, "Several descriptions: "),
    combine,
  );
  const strength = element("input", {
    id: "strength",
    type: "range",
    min: 0,
    max: about.limits.strength,
    step: 0.05,
    value: 1,
    "aria-describedby": "strength-help",
  });
  const strengthShown = element("output", { for: "strength" });
  const results = element(
    "select",
    { id: "results" },
    RESULT_COUNTS.filter((k) => k <= about.limits.k).map((k) => element("option", { value: k }, String(k))),
  );
  const samples = element("ul", { class: "chips", "aria-label": "Sample queries" });
  const status = element("p", { class: "status", role: "status", "aria-live": "polite" });
  const heading = element("h2", { class: "asked-for", id: "results-head" });
  const problem = element("div", { class: "problem", role: "alert", hidden: true });
  const beside = comparison(shell, can.mark ? mark : null);
  const calls = callsPanel(shell);
  const found = element(
    "section",
    { class: "found", "aria-labelledby": "results-head", hidden: true },
    heading,
    status,
    tuning(),
    beside.root,
    legend(),
    calls.root,
  );
  const waiting = element("p", { class: "note", role: "status", hidden: true }, "Searching \u2026");
  const root = element("div", {}, intro(), form(), problem, waiting, found);

  function intro() {
    return element(
      "div",
      { class: "intro" },
      element("h1", {}, "Search ", said(about.name)),
      element(
        "p",
        {},
        "Some items turn up whatever you ask: they are ",
        element("b", {}, "hubs"),
        ", and they push better answers down. ",
        element("b", { class: "raw-word" }, "Raw"),
        " is the ranking as it is. ",
        element("b", { class: "fixed-word" }, "Corrected"),
        " first takes away each item\u2019s head start, learned from past queries.",
      ),
    );
  }

  function form() {
    const made = element("form", { class: "card ask", role: "search", on: { submit: submitted } });
    if (can.text) {
      made.append(
        element("label", { for: "asked" }, "What are you looking for?"),
        element("div", { class: "boxed" }, box, element("button", { type: "submit", class: "primary" }, "Search")),
        element(
          "p",
          { id: "asked-help", class: "note" },
          "Enter searches. Several descriptions of the same thing: one on each line ",
          another,
        ),
        combineField,
      );
    }
    if (can.picture) made.append(pictureField());
    if (can.samples)
      made.append(
        element(
          "div",
          { class: "try" },
          element("span", { class: "note" }, can.text ? "Or try:" : "Ask with a sample query:"),
          samples,
        ),
      );
    made.append(element("p", { class: "note made-by" }, madeBy()));
    return made;
  }

  /** The strength, which stays in sight while the reader looks at the results. */
  function tuning() {
    return element(
      "div",
      { class: "card tuning" },
      element(
        "div",
        { class: "slide" },
        element("label", { for: "strength" }, "Strength of the correction ", strengthShown),
        strength,
        element(
          "p",
          { id: "strength-help", class: "ticks" },
          element("span", {}, "0 raw"),
          element("span", {}, "1 as learned"),
          element("span", {}, String(about.limits.strength)),
        ),
      ),
      element("p", { class: "field" }, element("label", { for: "results" }, "Results "), results),
    );
  }

  function pictureField() {
    const file = element("input", { id: "picture", type: "file", accept: "image/png,image/jpeg,image/webp" });
    file.addEventListener("change", async () => {
      if (!file.files.length) return;
      chosenPicture = { name: file.files[0].name, data: await asData(file.files[0]) };
      go({ picture: chosenPicture.name });
    });
    return element("p", { class: "field" }, element("label", { for: "picture" }, "Or a picture: "), file);
  }

  function madeBy() {
    const bank = about.bank
      ? `, learned from ${several(about.bank.queries, "past query", "past queries")} (the bank)`
      : "";
    return [
      `Correction ${shell.about.version}: method `,
      element("code", {}, about.method),
      `${bank}. `,
      element("a", { href: "#/bank" }, "Is the bank good?"),
    ];
  }

  function legend() {
    return element(
      "p",
      { class: "note legend" },
      element("span", {}, element("b", { class: "move up" }, "\u25b2 6"), " six places up"),
      element("span", {}, element("b", { class: "move down" }, "\u25bc 3"), " three places down"),
      element(
        "span",
        {},
        element("span", { class: "badge hub" }, "hub"),
        " turns up for far more queries than its share",
      ),
      can.mark ? element("span", {}, element("b", {}, "\u2713"), " notes that this is what you meant") : null,
      element("span", {}, "Click an item for more like it."),
    );
  }

  // What is asked, and its address.

  function asked() {
    const texts = parameters.getAll("text");
    if (texts.length > 1) return { texts };
    if (texts.length === 1) return { text: texts[0] };
    for (const name of ["sample", "item"]) {
      if (parameters.has(name)) return { [name]: idFrom(parameters.get(name)) };
    }
    if (parameters.has("picture") && chosenPicture) return { picture: chosenPicture.data.split(",")[1] };
    return null;
  }

  function body(query) {
    const made = { ...query, k: Number(results.value), strength: Number(strength.value) };
    return query.texts ? { ...made, combine: combine.value } : made;
  }

  function settings() {
    const kept = {};
    if (Number(strength.value) !== 1) kept.strength = strength.value;
    if (Number(results.value) !== RESULT_COUNTS[0]) kept.k = results.value;
    return kept;
  }

  function go(query) {
    const how = query.text?.length > 1 ? { combine: combine.value } : {};
    const address = searchAddress({ ...query, ...how, ...settings() });
    if (address === location.hash) refresh();
    else location.hash = address;
  }

  /** Keep the settings in the address without a step for the back button. */
  function keepSettings() {
    for (const name of ["strength", "k"]) parameters.delete(name);
    for (const [name, value] of Object.entries(settings())) parameters.set(name, value);
    if (parameters.getAll("text").length > 1) parameters.set("combine", combine.value);
    history.replaceState(null, "", `#/search?${parameters}`);
  }

  // What the reader does.

  function submitted(event) {
    event.preventDefault();
    const texts = linesOf(box.value);
    if (texts.length) go({ text: texts });
    else box.focus();
  }

  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submitted(event);
  });
  box.addEventListener("input", fitBox);
  another.addEventListener("click", () => {
    box.value = `${box.value.trimEnd()}\n`;
    fitBox();
    box.focus();
  });

  function fitBox() {
    box.rows = Math.min(8, box.value.split("\n").length);
    combineField.hidden = linesOf(box.value).length < 2;
  }

  let pause = 0;
  strength.addEventListener("input", () => {
    showStrength();
    clearTimeout(pause);
    pause = setTimeout(() => {
      keepSettings();
      refresh(true);
    }, SLIDER_PAUSE_MS);
  });
  for (const choice of [combine, results]) {
    choice.addEventListener("change", () => {
      keepSettings();
      refresh(true);
    });
  }

  function showStrength() {
    strengthShown.textContent = short(strength.value, 2);
  }

  async function mark(hit, button) {
    try {
      const query = asked() ?? example;
      const { marks } = await call("POST", "/v1/marks", { query, item: hit.id });
      button.classList.add("marked");
      button.setAttribute("aria-pressed", "true");
      shell.tell(`Noted: this is what you meant. ${several(marks, "mark")} so far.`);
    } catch (error) {
      shell.tell(error.message, true);
    }
  }

  // What the service answers.

  let example = null; // what is shown before anything is asked

  const search = newestOnly(async (signal, again) => {
    const query = asked() ?? (await exampleQuery(signal));
    if (!query) return;
    const sent = body(query);
    const started = performance.now();
    found.setAttribute("aria-busy", "true");
    waiting.hidden = !found.hidden;
    const answer = await call("POST", "/v1/search", { ...sent, raw: true, log: !again && query !== example }, signal);
    show(answer, sent, performance.now() - started);
  });

  /** Search; `again` says that only the settings changed, so that the query is not logged once more. */
  async function refresh(again = false) {
    try {
      await search(again);
      problem.hidden = true;
    } catch (error) {
      problem.replaceChildren(element("p", {}, error.message));
      problem.hidden = false;
      found.hidden = true;
    } finally {
      waiting.hidden = true;
      found.removeAttribute("aria-busy");
    }
  }

  /** An empty page shows an example: a query into which the hub gets that loses most, or else the first sample. */
  async function exampleQuery(signal) {
    if (!can.samples || parameters.has("picture")) {
      found.hidden = true;
      return null;
    }
    if (!example) {
      const hubs = await get("/v1/hubs?k=10", signal).catch(() => ({ ready: false }));
      const lost = (hub) => hub.raw - hub.corrected;
      const worst = hubs.ready ? hubs.worst.raw.reduce((one, other) => (lost(other) > lost(one) ? other : one)) : null;
      const fallen = worst?.queries[0];
      const first = fallen ?? (await get("/v1/samples?start=0&count=1", signal)).samples[0];
      example = { sample: first.id };
    }
    return example;
  }

  function show(answer, sent, milliseconds) {
    found.hidden = false;
    heading.replaceChildren(...headingFor(answer, sent));
    const isEmpty = answer.hits.length === 0;
    beside.root.hidden = isEmpty;
    const unknown = answer.unknown?.length ? ` Words it does not know, left out: ${answer.unknown.join(", ")}.` : "";
    status.textContent = isEmpty
      ? `Nothing was found.${unknown} Ask for something else, or for fewer things at once.`
      : `${several(answer.hits.length, "result")} by correction ${answer.version} at strength ${short(answer.strength, 2)}, ${milliseconds < 10 ? milliseconds.toFixed(1) : count(Math.round(milliseconds))} ms.${unknown}`;
    const isSimilarity = !(sent.texts && sent.combine === "ra");
    beside.show({ ...answer, raw: answer.raw ?? [], isSimilarity });
    calls.show(sent);
    if (can.text && sent.sample !== undefined && answer.asked && document.activeElement !== box) {
      box.value = answer.asked;
      fitBox();
    }
  }

  function headingFor(answer, sent) {
    if (sent.text !== undefined) return ["Results for ", said(sent.text, { class: "quoted" })];
    if (sent.texts)
      return [
        `Results for ${sent.texts.length} descriptions: `,
        ...sent.texts.flatMap((text, place) => [place ? " + " : "", said(text, { class: "quoted" })]),
      ];
    if (sent.picture) return ["Results for the picture ", said(chosenPicture.name, { class: "quoted" })];
    if (sent.item !== undefined) return ["More like ", said(answer.asked ?? sent.item, { class: "quoted" })];
    const name = answer.asked === null || answer.asked === undefined ? `${sent.sample}` : answer.asked;
    return [
      parameters.has("sample") ? "Results for the sample query " : "An example: results for ",
      said(name, { class: "quoted" }),
    ];
  }

  async function showSamples(start = 0) {
    const { total, samples: some } = await get(`/v1/samples?start=${start}&count=${SAMPLES_SHOWN}`);
    const next = start + some.length < total ? start + some.length : 0;
    samples.replaceChildren(
      ...some.map((one) =>
        element(
          "li",
          {},
          element("a", { class: "chip", href: searchAddress({ sample: one.id }) }, said(one.text ?? `query ${one.id}`)),
        ),
      ),
      total > some.length
        ? element(
            "li",
            {},
            element("button", { type: "button", class: "chip more", on: { click: () => showSamples(next) } }, "others"),
          )
        : "",
    );
  }
  if (can.samples) showSamples().catch((error) => shell.tell(error.message, true));

  return {
    root,
    update({ parameters: given }) {
      parameters = given;
      box.value = parameters.getAll("text").join("\n");
      strength.value = parameters.get("strength") ?? 1;
      results.value = parameters.get("k") ?? RESULT_COUNTS[0];
      if (parameters.has("combine")) combine.value = parameters.get("combine");
      fitBox();
      showStrength();
      refresh();
    },
    close: () => beside.close(),
  };
}
