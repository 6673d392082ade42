// @ts-check
// Entry of the block map.

import { mountOf } from "../lib/mount.js";
import { BlockMap } from "./block_map.js";

export const mount = mountOf(BlockMap, new URL("./style.css", import.meta.url).href);
