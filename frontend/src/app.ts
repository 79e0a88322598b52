// The page of `whydrop web`: each view begins with what its address says.

import { browse } from "./app/browse";
import { compare } from "./app/compare";
import { open } from "./app/open";
import { run } from "./app/run";
import { study } from "./app/study";
import { watch } from "./app/watch";
import "uplot/dist/uPlot.min.css";
import "./page.css";
import "./app/app.css";
import "./app/print.css";

const VIEWS: Record<string, (view: HTMLElement) => void> = { browse, compare, open, run, study, watch };

const view = document.getElementById("view");
if (view) VIEWS[document.body.dataset["view"] ?? ""]?.(view);
