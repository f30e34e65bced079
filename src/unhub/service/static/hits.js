// Hits: items that were found, in one list, or raw and corrected beside each other with what moved.

import { drawn, element, isGlyph, nameOf, said, short } from "./elements.js";
import { itemAddress, searchAddress } from "./addresses.js";
import { pictureAddress } from "./service.js";

export const HUB_MEANING = "A hub: it turns up for far more queries than its share.";

/** The picture of an item: its image, or the emoji that it is, or nothing. */
export function picture(item) {
  if (item.image) {
    const image = element("img", { class: "thumb", alt: "", loading: "lazy", decoding: "async" });
    image.addEventListener("error", () => image.replaceWith(element("span", { class: "thumb missing" }, "no picture")));
    pictureAddress(item.image).then(
      (address) => (image.src = address),
      () => image.dispatchEvent(new Event("error")),
    );
    return image;
  }
  return isGlyph(item.id) ? element("span", { class: "thumb glyph", "aria-hidden": "true" }, item.id) : null;
}

/** How far a hit moved: from its raw place, or to its corrected place. */
export function movement(hit, side, fetched) {
  const other = side === "raw" ? hit.rank_corrected : hit.raw_rank;
  const from = side === "raw" ? "now" : "was";
  const beyond = fetched ? `below ${fetched}` : "further down";
  if (other === null || other === undefined) {
    const way = side === "raw" ? "down" : "up";
    return { way, far: null, text: `${from} ${beyond}` };
  }
  const far = side === "raw" ? hit.rank - other : other - hit.rank;
  return {
    way: far > 0 ? "up" : far < 0 ? "down" : "same",
    far: Math.abs(far),
    text: far ? `${from} ${other}` : "stayed",
  };
}

const ARROWS = { up: "\u25b2", down: "\u25bc", same: "=" };
const WORDS = { up: "up", down: "down", same: "" };

function moveBadge({ way, far, text }) {
  return element(
    "span",
    { class: `move ${way}` },
    element(
      "span",
      { class: "far" },
      element("span", { "aria-hidden": "true" }, ARROWS[way]),
      element("span", { class: "unseen" }, WORDS[way]),
      way === "same" ? "" : far === null ? "" : ` ${far}`,
    ),
    element("small", {}, text),
  );
}

/** Say in sentences why an item stands where it stands. */
function explained(hit, side, answer, about) {
  const { way } = movement(hit, side, answer.fetched);
  const { bias } = hit;
  const parts = [];
  if (bias === null) {
    parts.push("This correction has no head start for each item: it looks at the whole list.");
  } else if (about.kind === "bias" && answer.isSimilarity) {
    const isLeft = answer.strength > 0 && answer.corrected === false;
    const taken = isLeft ? 0 : answer.strength * bias;
    const similarity = side === "raw" ? hit.score : hit.score + taken;
    const result = short(similarity - taken);
    if (isLeft) {
      parts.push(
        `Its similarity is ${short(similarity)}. The correction leaves this query as it is, so nothing is taken off or given back.`,
      );
    } else if (bias >= 0) {
      parts.push(
        `Whatever they ask, past queries come ${short(bias)} closer to this item than to the average one: that is its head start.`,
      );
      parts.push(
        `Its similarity is ${short(similarity)}. At strength ${short(answer.strength, 2)}, ${short(taken)} is taken off, which leaves ${result}.`,
      );
    } else {
      parts.push(
        `Whatever they ask, past queries stay ${short(-bias)} further from this item than from the average one.`,
      );
      parts.push(
        `Its similarity is ${short(similarity)}. At strength ${short(answer.strength, 2)}, ${short(-taken)} is given back, which makes ${result}.`,
      );
    }
  } else {
    parts.push(`Its head start (h) is ${short(bias)}: above 0, the item is favoured; below 0, it is held back.`);
  }
  if (way === "up" && bias > 0) parts.push("It moved up because items above it lost more.");
  if (way === "down" && bias < 0) parts.push("It moved down because other items gained more.");
  return parts.join(" ");
}

/** A query that returns an item; one of the samples can be asked again. */
export function askedQuery(query, about) {
  const text = said(query.text ?? `query ${query.id}`);
  return about.can.samples ? element("a", { href: searchAddress({ sample: query.id }) }, text) : text;
}

/** An entry of a list of items: place, picture, name that searches for more like it, and what else is given. */
export function entry(hit, { key = null, side = null, meta = [], end = [] } = {}) {
  const name = element(
    "a",
    { class: "name", href: searchAddress({ item: hit.id }), title: "More like this" },
    said(nameOf(hit)),
  );
  const id =
    hit.text !== null && hit.text !== undefined && !isGlyph(hit.id)
      ? element("span", { class: "id" }, "id ", said(hit.id))
      : null;
  return element(
    "li",
    { class: "hit", "data-key": key, "data-side": side },
    element("span", { class: "place" }, hit.rank === undefined ? "" : String(hit.rank)),
    picture(hit),
    element(
      "div",
      { class: "words" },
      name,
      element(
        "div",
        { class: "meta" },
        hit.hub ? element("span", { class: "badge hub", title: HUB_MEANING }, "hub") : null,
        id,
        meta,
      ),
    ),
    end,
  );
}

/** Raw and corrected beside each other; `show` follows the answers of the service. */
export function comparison(shell, onMark) {
  const lists = { raw: element("ol", { class: "hits" }), corrected: element("ol", { class: "hits" }) };
  const lines = drawn("svg", { class: "lines", "aria-hidden": "true" });
  const root = element(
    "div",
    { class: "comparison" },
    column("raw", "Raw", "ordered by similarity alone"),
    lines,
    column("corrected", "Corrected", "each item\u2019s head start taken off"),
  );
  const opened = new Set(); // explanations that the reader opened
  let answer = null;

  function column(side, title, what) {
    const heading = element("h2", { id: `head-${side}` }, title, " ", element("small", {}, what));
    lists[side].setAttribute("aria-labelledby", heading.id);
    return element("section", { class: `column ${side}` }, heading, lists[side]);
  }

  function row(hit, side) {
    const key = JSON.stringify(hit.id);
    const why = element(
      "details",
      { class: "why", open: opened.has(side + key) },
      element(
        "summary",
        { "aria-label": `${short(hit.score)}, why?` },
        element("span", { class: "score" }, short(hit.score)),
        element("span", { class: "ask-why" }, "why?"),
      ),
      element("p", {}, explained(hit, side, answer, shell.about)),
      element("p", {}, element("a", { href: itemAddress(hit.id) }, "All about this item")),
    );
    why.addEventListener("toggle", () => (why.open ? opened.add(side + key) : opened.delete(side + key)));
    const mark =
      onMark &&
      element(
        "button",
        {
          type: "button",
          class: "mark",
          title: "This is what I meant",
          "aria-label": `This is what I meant: ${nameOf(hit)}`,
          on: { click: (event) => onMark(hit, event.currentTarget) },
        },
        "\u2713",
      );
    return entry(hit, { key, side, meta: [why], end: [moveBadge(movement(hit, side, answer.fetched)), mark || null] });
  }

  /** Slide rows from where they were: the eye follows a move better than a jump. */
  function slide(before) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const one of lists.corrected.children) {
      const from = before.get(one.dataset.key);
      const by = from === undefined ? 0 : from - one.offsetTop;
      if (by)
        one.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], {
          duration: 220,
          easing: "ease-out",
        });
    }
  }

  /** Join the two places of each item by a line. */
  function drawLines() {
    const frame = lines.getBoundingClientRect();
    lines.replaceChildren();
    if (!answer || frame.width === 0) return;
    const middle = (one) => one.offsetTop + one.offsetHeight / 2; // both in the frame of the comparison, where the lines begin
    const places = new Map([...lists.corrected.children].map((one) => [one.dataset.key, middle(one)]));
    for (const [index, one] of [...lists.raw.children].entries()) {
      const { way } = movement(answer.raw[index], "raw", answer.fetched);
      const from = middle(one);
      const place = places.get(one.dataset.key);
      const curve =
        place === undefined
          ? `M0 ${from} C${frame.width / 4} ${from} ${frame.width / 3} ${from + 10} ${frame.width / 2.4} ${from + 22}`
          : `M0 ${from} C${frame.width / 2} ${from} ${frame.width / 2} ${place} ${frame.width} ${place}`;
      lines.append(
        drawn("path", { d: curve, class: place === undefined ? "down gone" : way, "data-key": one.dataset.key }),
      );
    }
  }

  /** Point at both places of the item under the pointer or the focus. */
  function point(event) {
    const key = event.target.closest?.(".hit")?.dataset.key;
    for (const one of root.querySelectorAll("[data-key]")) {
      one.classList.toggle(
        "pointed",
        event.type !== "mouseleave" && event.type !== "focusout" && one.dataset.key === key,
      );
    }
  }
  for (const type of ["mouseover", "mouseleave", "focusin", "focusout"]) root.addEventListener(type, point);

  const observer = new ResizeObserver(drawLines);
  for (const list of Object.values(lists)) observer.observe(list);

  return {
    root,
    show(newAnswer) {
      const before = new Map([...lists.corrected.children].map((one) => [one.dataset.key, one.offsetTop]));
      answer = newAnswer;
      lists.raw.replaceChildren(...answer.raw.map((hit) => row(hit, "raw")));
      lists.corrected.replaceChildren(...answer.hits.map((hit) => row(hit, "corrected")));
      slide(before);
      drawLines();
    },
    close: () => observer.disconnect(),
  };
}
