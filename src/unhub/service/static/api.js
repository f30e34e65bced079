// API: a page of documentation made from /openapi.json, with calls to try.

import { element } from "./elements.js";
import { get, token } from "./service.js";

const VERBS = ["get", "post", "put", "patch", "delete"];
const DEEPEST = 3;
const place = document.getElementById("operations");

async function start() {
  try {
    show(await get("/openapi.json"));
  } catch (error) {
    place.replaceChildren(element("div", { class: "problem", role: "alert" }, element("p", {}, error.message)));
  }
}

function show(specification) {
  const operations = Object.entries(specification.paths).flatMap(([path, verbs]) =>
    VERBS.filter((verb) => verb in verbs).map((verb) => ({
      path,
      verb,
      id: `${verb}${path.replace(/\W+/g, "-")}`,
      ...verbs[verb],
    })),
  );
  const contents = operations.map(({ verb, path, id }) =>
    element("li", {}, element("a", { href: `#${id}` }, verbOf(verb), " ", element("code", {}, path))),
  );
  place.replaceChildren(
    element("nav", { class: "card", "aria-label": "Operations" }, element("ul", { class: "contents" }, contents)),
    errors(operations),
    ...operations.map((one) => section(one, specification)),
  );
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

/** What the statuses of errors mean, once for all operations. */
function errors(operations) {
  const meanings = new Map(
    operations
      .flatMap(({ responses = {} }) => Object.entries(responses))
      .filter(([status]) => !status.startsWith("2"))
      .map(([status, { description }]) => [status, description]),
  );
  return element(
    "details",
    { class: "card" },
    element("summary", {}, "Errors"),
    element(
      "table",
      { class: "fields" },
      element(
        "tbody",
        {},
        [...meanings]
          .sort()
          .map(([status, meaning]) =>
            element("tr", {}, element("th", { scope: "row" }, element("code", {}, status)), element("td", {}, meaning)),
          ),
      ),
    ),
  );
}

function verbOf(verb) {
  return element("span", { class: `verb ${verb}` }, verb.toUpperCase());
}

function section(operation, specification) {
  const { path, verb, id, summary, description, parameters = [], requestBody, responses = {} } = operation;
  const content = requestBody?.content ?? {};
  const sent = content["application/json"]?.schema;
  const answer = Object.entries(responses).find(([status]) => status.startsWith("2"))?.[1]?.content?.[
    "application/json"
  ]?.schema;
  return element(
    "section",
    { class: "card operation" },
    element("h2", { id }, verbOf(verb), " ", element("code", {}, path)),
    (description ?? summary ?? "").split(/\n\s*\n/).map((text) => element("p", {}, text)),
    parameters.length
      ? [
          element("h3", {}, "Parameters"),
          fields(
            parameters.map((one) => [one.name, { description: one.description, ...one.schema }, one.required]),
            specification,
          ),
        ]
      : null,
    sent ? [element("h3", {}, "Body"), schemaFields(sent, specification)] : null,
    requestBody && !sent ? element("p", {}, `Body: ${Object.keys(content).join(", ")}, as it is.`) : null,
    answer ? element("details", {}, element("summary", {}, "Answer"), schemaFields(answer, specification)) : null,
    tryIt(operation, sent, specification),
  );
}

// Schemas.

function resolved(schema, specification) {
  if (!schema?.$ref) return schema ?? {};
  return schema.$ref
    .split("/")
    .slice(1)
    .reduce((node, key) => node[key.replaceAll("~1", "/")], specification);
}

/** Name a type in a few words. */
function typeOf(given, specification) {
  const schema = resolved(given, specification);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices)
    return [...new Set(choices.map((one) => typeOf(one, specification)))]
      .filter((name) => name !== "null")
      .join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return schema.items ? `list of ${typeOf(schema.items, specification)}` : "list";
  return schema.title && schema.properties ? schema.title : (schema.type ?? "any");
}

/** The schema with fields that stands behind a type: of a list, that of its entries. */
function inside(given, specification) {
  const schema = resolved(given, specification);
  if (schema.properties) return schema;
  if (schema.type === "array" && schema.items) return inside(schema.items, specification);
  return (schema.anyOf ?? schema.oneOf ?? []).map((one) => inside(one, specification)).find(Boolean) ?? null;
}

function schemaFields(schema, specification) {
  const found = inside(schema, specification);
  if (!found) return element("p", {}, typeOf(schema, specification));
  const rows = Object.entries(found.properties).map(([name, one]) => [name, one, found.required?.includes(name)]);
  return fields(rows, specification);
}

function fields(rows, specification) {
  return element(
    "table",
    { class: "fields" },
    element(
      "tbody",
      {},
      rows.flatMap(([name, schema, isRequired]) => row(name, schema, isRequired, specification, 0)),
    ),
  );
}

function row(name, schema, isRequired, specification, depth) {
  const known = resolved(schema, specification);
  const title = element("th", { scope: "row", class: depth ? "nested" : "" }, element("code", {}, name));
  title.style.setProperty("--depth", depth);
  const limits = [
    ["minimum", "at least"],
    ["exclusiveMinimum", "above"],
    ["maximum", "at most"],
    ["exclusiveMaximum", "below"],
    ["minItems", "entries: at least"],
    ["maxItems", "entries: at most"],
    ["minLength", "characters: at least"],
    ["maxLength", "characters: at most"],
  ]
    .filter(([key]) => known[key] !== undefined)
    .map(([key, words]) => `${words} ${known[key]}`);
  const standard =
    schema.default !== undefined && schema.default !== null
      ? `default ${JSON.stringify(schema.default)}`
      : isRequired
        ? "required"
        : null;
  const meaning = [schema.description ?? known.description, [...limits, standard].filter(Boolean).join(", ")].filter(
    Boolean,
  );
  const deeper = depth < DEEPEST ? inside(schema, specification) : null;
  return [
    element("tr", {}, title, element("td", {}, typeOf(schema, specification)), element("td", {}, meaning.join(". "))),
    ...Object.entries(deeper?.properties ?? {}).flatMap(([inner, one]) =>
      row(inner, one, false, specification, depth + 1),
    ),
  ];
}

// Calls.

function exampleOf(given, specification) {
  const schema = resolved(given, specification);
  if (schema.example !== undefined) return schema.example;
  if (schema.examples?.length) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.properties) {
    const named = Object.entries(schema.properties).filter(
      ([name, one]) => schema.required?.includes(name) || resolved(one, specification).examples,
    );
    return Object.fromEntries(named.map(([name, one]) => [name, exampleOf(one, specification)]));
  }
  if (schema.enum) return schema.enum[0];
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return exampleOf(choices[0], specification);
  return { string: "", integer: 1, number: 1, boolean: true, array: [], object: {} }[schema.type] ?? null;
}

function tryIt({ path, verb, id, parameters = [], requestBody }, sent, specification) {
  if (requestBody && !sent) return null;
  const inputs = parameters
    .filter((one) => one.in !== "header")
    .map((one) => [one, element("input", { id: `${id}-${one.name}`, value: one.schema?.default ?? "" })]);
  const body = sent
    ? element(
        "textarea",
        { id: `${id}-body`, rows: 5, spellcheck: "false" },
        JSON.stringify(exampleOf(sent, specification), null, 1),
      )
    : null;
  const answer = element("pre", { class: "answer", tabindex: "0", hidden: true, "aria-live": "polite" });
  async function send(event) {
    event.preventDefault();
    const query = new URLSearchParams();
    let address = path;
    for (const [one, input] of inputs) {
      if (one.in === "path") address = address.replace(`{${one.name}}`, encodeURIComponent(input.value));
      else if (input.value !== "") query.set(one.name, input.value);
    }
    const request = { method: verb.toUpperCase(), headers: {} };
    if (token()) request.headers.Authorization = `Bearer ${token()}`;
    if (body) {
      request.headers["Content-Type"] = "application/json";
      request.body = body.value;
    }
    answer.hidden = false;
    answer.textContent = "\u2026";
    try {
      const response = await fetch(query.size ? `${address}?${query}` : address, request);
      answer.textContent = `${response.status}\n${pretty(await response.text())}`;
    } catch (error) {
      answer.textContent = `The service does not answer: ${error.message}`;
    }
  }
  return element(
    "details",
    { class: "try-it" },
    element("summary", {}, "Try it"),
    element(
      "form",
      { on: { submit: send } },
      inputs.map(([one, input]) =>
        element("p", { class: "field" }, element("label", { for: input.id }, one.name, " "), input),
      ),
      body ? [element("label", { for: body.id }, "Body"), body] : null,
      element("p", {}, element("button", { type: "submit", class: "primary" }, "Send")),
    ),
    answer,
  );
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 1);
  } catch {
    return text;
  }
}

start();
