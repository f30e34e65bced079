// Calls: what the reader sees, as a call of the API by curl and as a call of the library in Python.

import { element } from "./elements.js";
import { token } from "./service.js";

const FIRST_VERSION = "v1"; // the one that the service was started with, which its lines of Python load

/** Quote a text for a shell. */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export function asCurl(body) {
  const lines = [`curl ${location.origin}/v1/search`, "-H 'Content-Type: application/json'"];
  if (token()) lines.push('-H "Authorization: Bearer $UNHUB_TOKEN"');
  const { picture, ...rest } = body;
  if (picture) {
    lines.push("--data-binary @-");
    const json = JSON.stringify(rest).slice(1, -1);
    return `printf '{"picture": "%s", ${json.replaceAll("'", "'\\''")}}' "$(base64 -w0 picture.jpg)" | \\\n  ${lines.join(" \\\n  ")}`;
  }
  lines.push(`-d ${quoted(JSON.stringify(rest))}`);
  return lines.join(" \\\n  ");
}

// A text of JSON is a text of Python too.
const literal = JSON.stringify;

const QUERIES = {
  text: ({ text }) => [`queries = encode([${literal(text)}])`],
  texts: ({ texts }) => [`described = encode([${texts.map(literal).join(", ")}])  # several descriptions of one item`],
  sample: ({ sample }) => [`queries = samples.rows[samples.ids == ${literal(sample)}]`],
  item: ({ item }, { store }) =>
    store
      ? ["import numpy", `queries = items.source().fetch(numpy.array([${literal(item)}])).rows`]
      : [`queries = items.rows[items.ids == ${literal(item)}]`],
  picture: () => ['queries = encoder.images(["picture.jpg"])'],
};

export function asPython(body, about) {
  const kind = Object.keys(QUERIES).find((one) => one in body);
  const more = `k=${body.k}, strength=${body.strength}`;
  const combine = body.combine === "head" ? "head" : literal(body.combine ?? "sa");
  const search =
    {
      texts: `ids, scores = searcher.search_sets([described], ${more}, combine=${combine})`,
      item: `ids, scores = searcher.search(queries, ${more}, exclude=[${literal(body.item)}])`,
    }[kind] ?? `ids, scores = searcher.search(queries, ${more})`;
  const other =
    about.version === FIRST_VERSION
      ? []
      : [`# The service answers by ${about.version}: load that correction for the same answers.`];
  return [...about.python, ...other, "", ...QUERIES[kind](body, about), search].join("\n");
}

/** Copy a text; where the browser forbids it, as on plain http, by a selection. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = element("textarea", { class: "unseen", readonly: true }, text);
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

/** Two buttons that copy, and both calls to read. */
export function callsPanel(shell) {
  const shown = { curl: element("code"), Python: element("code") };
  const buttons = Object.keys(shown).map((kind) =>
    element(
      "button",
      {
        type: "button",
        on: {
          click: async () => {
            await copied(shown[kind].textContent);
            shell.tell(`The call is copied as ${kind}.`);
          },
        },
      },
      `Copy as ${kind}`,
    ),
  );
  const root = element(
    "details",
    { class: "card calls" },
    element("summary", {}, "Use this search in your program"),
    Object.entries(shown).map(([kind, code], index) =>
      element(
        "section",
        {},
        element("h3", {}, kind, buttons[index]),
        element("pre", { tabindex: "0", "aria-label": kind }, code),
      ),
    ),
  );
  return {
    root,
    show(body) {
      shown.curl.textContent = asCurl(body);
      shown.Python.textContent = asPython(body, shell.about);
    },
  };
}
