import { fileURLToPath } from 'node:url'

/** Directory with the agent's and the kernel's Python code, to be shown to burrows as /.dormouse/guest. */
export const guestPythonDir = fileURLToPath(new URL('../python/', import.meta.url))
