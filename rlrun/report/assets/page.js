"use strict";
// Puts the sections of the report into the page.

head();
games();
envProfiles();
const curves = learningCurves();
configurations(curves);
sweeps();
populations();
histories();
recordings();
timeSpent();
trials();
origins();
addEventListener("beforeprint", () =>
  document.querySelectorAll("details").forEach((node) => node.setAttribute("open", "")),
);
