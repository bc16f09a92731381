"use strict";
// What all sections of the report use: the data in the page, words and colours.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLORS = 8;
const ONE_RUN = DATA.runs.length === 1;
const AXIS_NAMES = { steps: DATA.steps, time: "s of training" };
const main = document.getElementById("report");

const COUNTERPART = DATA.counterpart?.startsWith("evaluation/") ? "evaluation" : "in training";

const plural = (count, noun) => `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);
const listed = (words) =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
const interval = (estimate) => (estimate ? `${number(estimate.low)} to ${number(estimate.high)}` : "–");
/** A text that may be broken after the parts of a metric's name. */
const breakable = (text) => text.replace(/([_/])(?=\w)/g, "$1\u200b");
const percent = (share) => `${Math.round(100 * share)}%`;
const percents = (estimate) => `${Math.round(100 * estimate.low)} to ${percent(estimate.high)}`;
const rankOf = new Map(DATA.configurations.map((row, place) => [row.label, place + 1]));
/** A configuration's name if it is short, else its rank, which the table explains. */
const shortName = (label) => (label.length <= 20 ? label : `#${rankOf.get(label)}`);
/** A sentence about configurations, in which those with long names are called by their ranks. */
const byRank = (text) =>
  DATA.configurations
    .map((row) => row.label)
    .filter((label) => label.length > 20)
    .sort((a, b) => b.length - a.length) // as one name may be the beginning of another
    .reduce((said, label) => said.replaceAll(label, shortName(label)), text);
const sentence = (text) => (text ? `${text}.` : "");
const ofRun = (run) => (ONE_RUN ? "" : `: ${run.name}`);
const gridOf = (curve) =>
  curve.mean.map((_, i) => curve.from + ((curve.to - curve.from) * i) / Math.max(1, curve.mean.length - 1));
const shade = (share) =>
  `color-mix(in oklab, var(--high) ${Math.round(100 * Math.min(1, Math.max(0, share)))}%, var(--low))`;

function section(title, ...children) {
  main.append(el("section", {}, el("h2", { text: title }), ...children));
}

/** A share from 0 (worst) to 1 (best) of each score, for its colour. */
function goodness(scores) {
  const span = extent([scores]);
  if (!span || span.low === span.high) return scores.map(() => 0.5);
  return scores.map((score) =>
    score === null
      ? 0
      : DATA.mode === "min"
        ? (span.high - score) / (span.high - span.low)
        : (score - span.low) / (span.high - span.low),
  );
}
