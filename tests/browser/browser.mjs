// What the checks of pages share.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** The first of these programs that is on the PATH; null if none is. */
export function findOnPath(names) {
  for (const name of names) {
    for (const directory of (process.env.PATH || "").split(delimiter)) {
      const path = join(directory || ".", name);
      try { accessSync(path, constants.X_OK); return path; } catch { /* not here: the next one */ }
    }
  }
  return null;
}
