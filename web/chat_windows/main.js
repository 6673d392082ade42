// @ts-check
// Entry of the chat windows.

import { mountOf } from "../lib/mount.js";
import { ChatWindows } from "./chat_windows.js";

export const mount = mountOf(ChatWindows, new URL("./style.css", import.meta.url).href);
