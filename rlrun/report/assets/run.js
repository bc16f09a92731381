"use strict";
// One run: what it has recorded and learned, where its time went, its machine, how to repeat it, its spec.

function recordings() {
  for (const run of DATA.runs) {
    const shown = [
      ...run.videos.map(({ file, kind, address }) => {
        if (!address) return el("p", {}, "A video, too large for this page: ", el("code", { text: `${run.path}/${file}` }));
        const node = kind === "video" ? el("video", { src: address, controls: "", muted: "", loop: "", playsinline: "" }) : el("img", { src: address, alt: file });
        return el("figure", {}, node, el("figcaption", { class: "soft small", text: file }));
      }),
      ...run.pictures.map(({ trial, address }) =>
        el("figure", { class: "whole" }, el("img", { src: address, alt: `what ${trial} has learned` }), el("figcaption", { class: "soft small", text: trial })),
      ),
    ];
    if (run.episodes)
      shown.push(
        el("figure", { class: "whole" }, el("pre", { text: run.episodes.text }), el("figcaption", { class: "soft small", text: `episodes of ${run.episodes.trial}, after their returns` })),
      );
    if (shown.length) section(`What the policy does${ofRun(run)}`, el("div", { class: "recordings" }, shown));
  }
}

function timeSpent() {
  for (const run of DATA.runs.filter((one) => one.phases.length)) {
    const total = sum(run.phases.map(([, seconds]) => seconds));
    section(
      `Where the time went${ofRun(run)}`,
      phaseBars(run.phases, total),
      el("p", { class: "soft small", text: `${duration(total)} of training of ${run.best.trial}, by operator of its dataflow.` }),
    );
  }
}

function phaseBars(phases, total) {
  const row = 24,
    height = phases.length * row + 4;
  const left = 14 + 6.6 * Math.max(...phases.map(([name]) => Math.min(26, name.length)));
  return figure({
    name: "time per phase",
    rows: () => [["phase", "seconds"], ...phases],
    picture(width) {
      const svg = canvas(width, height);
      const x = scaleOf({ low: 0, high: phases[0][1] }, left, width - 130);
      phases.forEach(([name, seconds], place) => {
        const y = (place + 0.5) * row;
        svg.append(
          draw("text", { class: "strong", x: left - 10, y: y + 4, "text-anchor": "end", text: shortened(name, 26) }),
          draw("rect", { x: left, y: y - 7, width: Math.max(1, x(seconds) - left), height: 14, style: "fill: var(--accent)", "fill-opacity": 0.75 }),
          draw("text", { x: Math.max(left + 1, x(seconds)) + 8, y: y + 4, text: `${percent(seconds / total)}, ${duration(seconds)}` }),
        );
      });
      return svg;
    },
  }).node;
}

function origins() {
  for (const run of DATA.runs) {
    const facts = [
      ["command", copied(run.command)],
      ["commit", Object.entries(run.commits).map(([place, commit]) => el("div", {}, el("code", { text: commit.slice(0, 12), title: commit }), ` ${place}`))],
      ["machine", [run.machine.cpu, run.machine.gpu && run.machine.gpu !== "none" ? run.machine.gpu : ""].filter(Boolean).join(", ")],
      ["versions", Object.entries(run.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
      ["directory", copied(run.path)],
    ];
    section(
      `How to repeat it${ofRun(run)}`,
      el(
        "dl",
        { class: "facts" },
        facts.filter(([, said]) => said.length !== 0).flatMap(([name, said]) => [el("dt", { text: name }), el("dd", {}, said)]),
      ),
      el("details", {}, el("summary", { text: "Resolved spec" }), run.spec ? copied(run.spec, "pre") : el("p", { text: "It cannot be read." })),
    );
  }
  main.append(
    el("footer", {
      text: `Made ${DATA.made.slice(0, 16).replace("T", " ")} UTC by rlrun ${DATA.rlrun}. Judged by ${DATA.metric}, ${DATA.mode === "min" ? "less" : "more"} is better. This page holds all of its data and fetches nothing.`,
    }),
  );
}

/** A text with a button that copies it. */
function copied(text, tag = "code") {
  const shown = el(tag, { text });
  const button = el("button", {
    ...{ type: "button", text: "copy", class: "copy" },
    click() {
      getSelection().selectAllChildren(shown);
      button.textContent = document.execCommand("copy") ? "copied" : "selected";
      setTimeout(() => (button.textContent = "copy"), 1500);
    },
  });
  return el(tag === "pre" ? "div" : "span", { class: "copied" }, shown, button);
}
