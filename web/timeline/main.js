// @ts-check
// Entry of the timeline.

import { mountOf } from "../lib/mount.js";
import { Timeline } from "./timeline.js";

export const mount = mountOf(Timeline, new URL("./style.css", import.meta.url).href);
