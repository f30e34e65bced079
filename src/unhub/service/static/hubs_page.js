// Hubs page: how often items are returned, before and after; the worst hubs; items that are never found.

import { count, element, nameOf, said, several, share, short } from "./elements.js";
import { itemAddress } from "./addresses.js";
import { askedQuery, picture } from "./hits.js";
import { countsPlot } from "./plot.js";
import { get, newestOnly } from "./service.js";

const AGAIN_MS = 700; // while the service still counts
const SIDES = { raw: "Raw", corrected: "Corrected" };
const FIGURES = [
  ["largest", "Worst hub", "in how many lists the most returned item is", (value) => count(Math.round(value))],
  ["anti_hubs", "Never found", "share of the items that no query returns", share],
  ["top_share", "Taken by the top 1%", "share of all places that the most returned 1% of the items take", share],
  ["skewness", "Skewness", "how lopsided the counts are; 0 is even", (value) => short(value, 2)],
  ["robin_hood", "Robin Hood index", "share of the places that would have to change hands to be even", share],
];

export function hubsPage(shell) {
  const body = element("div", {}, element("p", { class: "loading" }, "Counting \u2026"));
  const root = element(
    "div",
    {},
    element("h1", {}, "Hubs"),
    element(
      "p",
      { class: "lead" },
      "A hub is returned whatever is asked. Other items are then never found. Here is how often each item is returned, raw and corrected, and what chance alone would do.",
    ),
    body,
  );
  let plot = null;
  let waiting = 0;

  const load = newestOnly(async (signal) => {
    const hubs = await get("/v1/hubs?k=10", signal);
    if (hubs.ready) return show(hubs);
    body.replaceChildren(element("p", { class: "loading" }, "The service is still counting \u2026"));
    waiting = setTimeout(refresh, AGAIN_MS);
    return undefined;
  });

  async function refresh() {
    try {
      await load();
    } catch (error) {
      body.replaceChildren(element("div", { class: "problem", role: "alert" }, element("p", {}, error.message)));
    }
  }

  function show(hubs) {
    plot?.close();
    plot = countsPlot({ counts: hubs.counts, mean: (hubs.queries * hubs.k) / shell.about.items });
    body.replaceChildren(
      verdict(hubs),
      element("section", { class: "card" }, element("h2", {}, "How often items are returned"), plot.root),
      figures(hubs),
      chosen("Worst hubs", "worst", (side) => worst(hubs, side)),
      chosen("Never found", "never", (side) => never(hubs.never[side])),
    );
  }

  function verdict(hubs) {
    const top = hubs.worst.raw[0];
    const sentences = [
      `${count(hubs.queries)} ${hubs.from} were asked; each returns ${several(hubs.k, "item")}. `,
      top
        ? [
            "Raw, ",
            element("a", { href: itemAddress(top.id) }, said(nameOf(top))),
            ` is in ${count(top.raw)} lists; corrected, in ${count(top.corrected)}. `,
          ]
        : "",
      `Raw, ${share(hubs.raw.anti_hubs)} of the items are never found; corrected, ${share(hubs.corrected.anti_hubs)}.`,
    ];
    return element("p", { class: "card verdict" }, sentences);
  }

  function figures({ raw, corrected, chance }) {
    const cell = (values, name, form) =>
      values?.[name] === null || values?.[name] === undefined ? "\u2013" : form(values[name]);
    return element(
      "section",
      { class: "card" },
      element("h2", {}, "In figures"),
      element(
        "table",
        { class: "figures" },
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            element("td"),
            ...["raw", "corrected", "chance"].map((name) => element("th", { scope: "col" }, name)),
          ),
        ),
        element(
          "tbody",
          {},
          FIGURES.filter(([name]) => raw[name] !== undefined).map(([name, title, meaning, form]) =>
            element(
              "tr",
              {},
              element("th", { scope: "row" }, title, element("small", {}, meaning)),
              element("td", { class: "raw-word" }, cell(raw, name, form)),
              element("td", { class: "fixed-word" }, cell(corrected, name, form)),
              element("td", {}, cell(chance, name, form)),
            ),
          ),
        ),
      ),
    );
  }

  /** A section that shows the raw or the corrected side. */
  function chosen(title, name, made) {
    const content = element("div");
    const buttons = Object.entries(SIDES).map(([side, text]) =>
      element("button", { type: "button", "data-side": side, on: { click: () => choose(side) } }, text),
    );
    function choose(side) {
      for (const one of buttons) one.setAttribute("aria-pressed", String(one.dataset.side === side));
      content.replaceChildren(made(side));
    }
    choose("raw");
    return element(
      "section",
      { class: "card", id: name },
      element(
        "div",
        { class: "headed" },
        element("h2", {}, title),
        element("div", { class: "switch", role: "group", "aria-label": title }, buttons),
      ),
      content,
    );
  }

  function worst(hubs, side) {
    const most = Math.max(1, ...hubs.worst[side].map((one) => Math.max(one.raw, one.corrected)));
    if (!hubs.worst[side].length)
      return element("p", { class: "note" }, "No item is returned more often than its share.");
    return element(
      "ol",
      { class: "hub-list" },
      hubs.worst[side].map((one) =>
        element(
          "li",
          { class: "hub-card" },
          picture(one),
          element(
            "div",
            {},
            element("h3", {}, element("a", { href: itemAddress(one.id) }, said(nameOf(one)))),
            meter("raw", one.raw, most),
            meter("corrected", one.corrected, most),
            one.queries.length
              ? element(
                  "details",
                  {},
                  element("summary", {}, "queries that fall into it"),
                  element(
                    "ul",
                    { class: "plain" },
                    one.queries.map((query) => element("li", {}, askedQuery(query, shell.about))),
                  ),
                )
              : null,
          ),
        ),
      ),
    );
  }

  function meter(side, value, most) {
    return element(
      "div",
      { class: `meter ${side}` },
      element("span", {}, side),
      element("meter", { min: 0, max: most, value, "aria-label": `lists that have it, ${side}` }),
      element("b", {}, count(value)),
    );
  }

  function never({ count: number, share: part, items }) {
    if (!number && !part) return element("p", { class: "note" }, "Every item is found by some query.");
    const most = items.length;
    return element(
      "div",
      {},
      element(
        "p",
        { class: "note" },
        `${number === undefined ? "" : `${several(number, "item")}, `}${share(part)} of all${most ? `. ${several(most, "example")}:` : "."}`,
      ),
      element(
        "ul",
        { class: "chips" },
        items.map((one) =>
          element(
            "li",
            {},
            element("a", { class: "chip", href: itemAddress(one.id) }, picture(one), said(nameOf(one))),
          ),
        ),
      ),
    );
  }

  return {
    root,
    update: refresh,
    close() {
      clearTimeout(waiting);
      plot?.close();
    },
  };
}
