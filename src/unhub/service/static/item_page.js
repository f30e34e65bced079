// Item page: one item, how often it is returned, its neighbours, and the queries that return it.

import { count, element, nameOf, said, short } from "./elements.js";
import { idFrom, searchAddress } from "./addresses.js";
import { askedQuery, entry, picture } from "./hits.js";
import { get, newestOnly } from "./service.js";

const QUERIES_SHOWN = 8;
const SIDES = { raw: "Raw", corrected: "Corrected" };

export function itemPage(shell) {
  const root = element("div", { class: "item-page" });

  const load = newestOnly(async (signal, id) => show(await get(`/v1/items/${encodeURIComponent(idFrom(id))}`, signal)));

  function show(item) {
    document.title = `${nameOf(item)} · ${shell.about.name} · unhub`;
    root.replaceChildren(
      element(
        "div",
        { class: "item-head" },
        picture(item),
        element(
          "div",
          {},
          element("h1", {}, said(nameOf(item))),
          element(
            "p",
            { class: "note" },
            "id ",
            said(item.id),
            item.hub ? [" ", element("span", { class: "badge hub" }, "hub")] : null,
          ),
          element("p", {}, element("a", { class: "button", href: searchAddress({ item: item.id }) }, "More like this")),
        ),
      ),
      tiles(item),
      sides(
        "Queries that return it",
        `Among the ${shell.about.can.samples ? "sample" : "bank"} queries, those that have it in their first ten.`,
        (side) => queries(item.queries, side),
      ),
      sides("Its neighbours", "The items nearest to it, as if it were the query.", (side) =>
        neighbours(item.neighbours[side]),
      ),
    );
  }

  function tiles({ bias, bias_place: place, counts }) {
    const all = [];
    const way = bias >= 0 ? "favoured by as much, whatever is asked" : "held back by as much, whatever is asked";
    if (bias !== null) {
      const told = place ? `${way}; place ${count(place)} of ${count(shell.about.items)}` : way;
      all.push(["Head start (h)", short(bias, 4), told]);
    }
    if (counts) {
      all.push(["Returned, raw", count(counts.raw), "lists of ten that have it", "raw-word"]);
      all.push(["Returned, corrected", count(counts.corrected), "lists of ten that have it", "fixed-word"]);
      all.push(["By chance", short(counts.chance, 1), "if items came at random"]);
    }
    return element(
      "div",
      { class: "tiles" },
      all.map(([name, value, more, kind]) =>
        element(
          "div",
          { class: "tile" },
          element("div", { class: "note" }, name),
          element("div", { class: `value ${kind ?? ""}` }, value),
          element("div", { class: "note" }, more),
        ),
      ),
    );
  }

  function sides(title, what, list) {
    return element(
      "section",
      { class: "card" },
      element("h2", {}, title),
      element("p", { class: "note" }, what),
      element(
        "div",
        { class: "pair" },
        Object.entries(SIDES).map(([side, name]) =>
          element("div", { class: `column ${side}` }, element("h3", {}, name), list(side)),
        ),
      ),
    );
  }

  function queries(counted, side) {
    if (!counted) return element("p", { class: "note" }, "Still being counted, or there are no queries to count with.");
    if (!counted[side].length) return element("p", { class: "note" }, "None.");
    const listed = counted[side].map((one) =>
      element("li", {}, askedQuery(one, shell.about), element("span", { class: "note" }, ` in place ${one.rank}`)),
    );
    const more = listed.slice(QUERIES_SHOWN);
    return [
      element("ol", { class: "plain" }, listed.slice(0, QUERIES_SHOWN)),
      more.length
        ? element(
            "details",
            {},
            element("summary", { class: "note" }, `${more.length} more`),
            element("ol", { class: "plain", start: QUERIES_SHOWN + 1 }, more),
          )
        : null,
    ];
  }

  function neighbours(hits) {
    if (!hits?.length) return element("p", { class: "note" }, "None.");
    return element(
      "ol",
      { class: "hits" },
      hits.map((hit) => entry(hit, { meta: [element("span", { class: "score" }, short(hit.score))] })),
    );
  }

  return {
    root,
    async update({ id }) {
      root.replaceChildren(element("p", { class: "loading" }, "Loading \u2026"));
      try {
        await load(id);
      } catch (error) {
        root.replaceChildren(
          element("h1", {}, "Item"),
          element("div", { class: "problem", role: "alert" }, element("p", {}, error.message)),
        );
      }
    },
  };
}
