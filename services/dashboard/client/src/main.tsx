// The client: a shell around the view that the address names.
import { render } from "preact";
import "./style.css";
import "./charts.css";
import "uplot/dist/uPlot.min.css";
import { followLinks } from "./state/router";
import { identify, watch } from "./state/live";
import { Shell } from "./shell";

followLinks();
void identify();
watch([]);
render(<Shell />, document.getElementById("app")!);
