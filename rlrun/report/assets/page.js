"use strict";
// Puts the sections of the report into the page.

head();
const emphasise = learningCurves();
configurations(emphasise);
sweeps();
populations();
stops();
trials();
origins();
addEventListener("beforeprint", () =>
  document.querySelectorAll("details").forEach((node) => node.setAttribute("open", "")),
);
