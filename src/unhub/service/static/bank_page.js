// Bank page: is the bank good, today's queries against it, a refit, and the versions of the correction.

import { clock, count, element, said, share, short } from "./elements.js";
import { call, get, newestOnly } from "./service.js";

const AGAIN_MS = 500; // while a refit runs
const VERDICT_KINDS = {
  good: "good",
  unproven: "warn",
  thin: "warn",
  tiny: "bad",
  "off-domain": "bad",
  leaking: "bad",
};

export function bankPage(shell) {
  const { can } = shell.about;
  const judged = element(
    "section",
    { class: "card" },
    element("h2", {}, "Is it good?"),
    element("p", { class: "loading" }, "Loading \u2026"),
  );
  const refitting = element("section", { class: "card", "aria-live": "polite" });
  const versions = element("section", { class: "card" });
  const root = element(
    "div",
    {},
    element("h1", {}, "Bank"),
    element(
      "p",
      { class: "lead" },
      "The bank is the past queries that the correction was learned from. It should look like what people ask today. When it no longer does, refit.",
    ),
    judged,
    refitting,
    versions,
  );
  let waiting = 0; // for the refit
  let judging = 0; // for the verdict
  let isOpen = true;

  function problem(error) {
    return element("div", { class: "problem", role: "alert" }, element("p", {}, error.message));
  }

  const loadBank = newestOnly(async (signal) => {
    const bank = await get("/v1/bank", signal);
    if (!bank.ready) {
      judged.replaceChildren(
        element("h2", {}, "Is it good?"),
        element("p", { class: "loading" }, "The bank is being judged \u2026"),
      );
      if (isOpen) judging = setTimeout(() => guarded(loadBank, judged), AGAIN_MS);
      return;
    }
    judged.replaceChildren(
      element("h2", {}, "Is it good?"),
      element(
        "p",
        { class: "verdict-line" },
        element("span", { class: `badge ${VERDICT_KINDS[bank.verdict] ?? "warn"}` }, bank.verdict),
        " ",
        said(bank.conclusion),
      ),
      element(
        "table",
        { class: "facts" },
        element(
          "tbody",
          {},
          bank.cells.map(([name, value, meaning]) =>
            element(
              "tr",
              {},
              element("th", { scope: "row" }, name),
              element("td", {}, value),
              element("td", { class: "note" }, meaning),
            ),
          ),
        ),
      ),
      element("h3", {}, "Today\u2019s queries"),
      element("p", {}, todays(bank.queries_today)),
    );
  });

  function todays(today) {
    return (
      today?.sentence ??
      "Queries are not logged, so nothing is known of today\u2019s. Start the service with --log DIR to compare them."
    );
  }

  // The refit.

  const loadRefit = newestOnly(async (signal) => {
    const state = await get("/v1/refit", signal);
    showRefit(state);
    if (state.state === "running" && isOpen) waiting = setTimeout(() => guarded(loadRefit, refitting), AGAIN_MS);
    return state;
  });

  let shownState = null;

  function showRefit(refit) {
    if (shownState === "running" && refit.state === "running") {
      const bar = refitting.querySelector("progress");
      bar.value = refit.done;
      refitting.querySelector(".step").textContent = stepOf(refit);
      return;
    }
    if (shownState === "running") guarded(loadVersions, versions);
    shownState = refit.state;
    refitting.replaceChildren(element("h2", {}, "Refit"), ...(REFIT[refit.state] ?? REFIT.idle)(refit));
  }

  function stepOf({ done }) {
    return `${Math.round(100 * done)}%`;
  }

  const REFIT = {
    idle: () => [
      element(
        "p",
        { class: "note" },
        "Learn the correction again, in the background. The new one is judged first, and serves only when you activate it.",
      ),
      refitForm(),
    ],
    running: (refit) => [
      element("p", {}, "A refit is under way. Searches go on as before."),
      element(
        "p",
        { class: "progress" },
        element("progress", { max: 1, value: refit.done, "aria-label": "Progress of the refit" }),
        element("span", { class: "step" }, stepOf(refit)),
      ),
      element(
        "button",
        { type: "button", on: { click: () => act("DELETE", "/v1/refit", "The refit was cancelled.") } },
        "Cancel",
      ),
    ],
    offered: (refit) => [
      element("p", {}, element("b", {}, refit.version), " is ready. ", said(refit.judged.reason)),
      hubnessLine(refit.judged.hubness),
      element(
        "p",
        { class: "row" },
        element(
          "button",
          { type: "button", class: "primary", on: { click: () => activate(refit.version) } },
          `Activate ${refit.version}`,
        ),
        element(
          "button",
          { type: "button", on: { click: () => act("DELETE", "/v1/refit", "The offer was dropped.") } },
          "Drop it",
        ),
      ),
    ],
    failed: (refit) => [
      element("div", { class: "problem", role: "alert" }, element("p", {}, `The refit failed: ${refit.error}`)),
      refitForm(),
    ],
    cancelled: () => [element("p", { class: "note" }, "The refit was cancelled."), refitForm()],
  };

  /** What changes for the hubs, from the active version to the offered one. */
  function hubnessLine(hubness) {
    if (!hubness) return null;
    const { active, offered } = hubness;
    const words = [
      `worst hub in ${count(active.largest)} \u2192 ${count(offered.largest)} lists`,
      `never found ${share(active.anti_hubs)} \u2192 ${share(offered.anti_hubs)}`,
      `skewness ${short(active.skewness, 2)} \u2192 ${short(offered.skewness, 2)}`,
    ];
    return element("p", {}, `Hubs, from the active version to this one: ${words.join(", ")}.`);
  }

  function refitForm() {
    if (!can.refit) return element("p", {}, "This service cannot refit: it has no bank, or its items are in a store to which a correction was deployed.");
    const method = element("input", {
      id: "method",
      placeholder: "let it choose",
      autocomplete: "off",
      spellcheck: "false",
    });
    const source = element(
      "select",
      { id: "source" },
      [
        ["bank", "the bank"],
        ["log", "the logged queries"],
        ["both", "the bank of the start and the log"],
      ].map(([value, text]) => element("option", { value }, text)),
    );
    return element(
      "form",
      {
        class: "refit",
        on: {
          submit: (event) => {
            event.preventDefault();
            const sent = { method: method.value.trim() || null, bank: can.log ? source.value : "bank" };
            act("POST", "/v1/refit", null, sent);
          },
        },
      },
      element("p", { class: "field" }, element("label", { for: "method" }, "Method "), method),
      can.log ? element("p", { class: "field" }, element("label", { for: "source" }, "Learn from "), source) : null,
      element("button", { type: "submit", class: "primary" }, "Refit"),
    );
  }

  // The versions.

  const loadVersions = newestOnly(async (signal) => {
    const { versions: all, back } = await get("/v1/corrections", signal);
    const upload = element("input", { id: "upload", type: "file", accept: ".unhub" });
    upload.addEventListener(
      "change",
      () => upload.files.length && act("POST", "/v1/corrections", "The correction was added.", upload.files[0]),
    );
    versions.replaceChildren(
      element(
        "div",
        { class: "headed" },
        element("h2", {}, "Versions"),
        back
          ? element("button", { type: "button", id: "rollback", on: { click: rollBack } }, `Roll back to ${back}`)
          : null,
      ),
      element(
        "p",
        { class: "note" },
        can.state
          ? "They are kept: a restart serves the one that is active."
          : "They are kept in memory only: nothing survives a restart. Start the service with --state DIR to keep them.",
      ),
      element("ol", { class: "versions" }, [...all].reverse().map(version)),
      element("p", { class: "field" }, element("label", { for: "upload" }, "Add a correction from a file: "), upload),
    );
  });

  function version(one) {
    return element(
      "li",
      { class: one.active ? "active" : "" },
      element(
        "div",
        {},
        element("b", {}, one.name),
        " ",
        one.active
          ? element("span", { class: "badge good" }, "active")
          : one.offered
            ? element("span", { class: "badge warn" }, "offered")
            : null,
        " ",
        element("code", {}, one.method),
        element("span", { class: "note" }, ` ${clock(one.when)}`),
        one.why ? element("p", { class: "note" }, said(one.why)) : null,
        one.judged
          ? element("details", { class: "note" }, element("summary", {}, "How it was judged"), said(one.judged.reason))
          : null,
      ),
      one.active
        ? null
        : element(
            "button",
            { type: "button", on: { click: () => activate(one.name) }, "aria-label": `Activate ${one.name}` },
            "Activate",
          ),
    );
  }

  // Actions.

  async function guarded(load, place) {
    try {
      return await load();
    } catch (error) {
      place.replaceChildren(problem(error));
      return undefined;
    }
  }

  async function act(method, path, told, body) {
    try {
      await call(method, path, body);
      if (told) shell.tell(told);
    } catch (error) {
      shell.tell(error.message, true);
    }
    await refresh();
  }

  async function activate(name) {
    await act("POST", `/v1/corrections/${encodeURIComponent(name)}/activate`, `${name} serves now.`);
  }

  async function rollBack() {
    await act("POST", "/v1/corrections/rollback", "Rolled back.");
  }

  async function refresh() {
    clearTimeout(waiting);
    clearTimeout(judging);
    shownState = null;
    await Promise.all([
      guarded(loadBank, judged),
      guarded(loadRefit, refitting),
      guarded(loadVersions, versions),
      shell.refreshAbout().catch((error) => shell.tell(error.message, true)),
    ]);
  }

  return {
    root,
    update: refresh,
    close() {
      isOpen = false;
      clearTimeout(waiting);
      clearTimeout(judging);
    },
  };
}
