// @ts-check
// Entry of the lanes.

import { mountOf } from "../lib/mount.js";
import { Lanes } from "./lanes.js";

export const mount = mountOf(Lanes, new URL("./style.css", import.meta.url).href);
