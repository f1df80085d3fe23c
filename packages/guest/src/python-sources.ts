import { fileURLToPath } from 'node:url'

/** The Python code of agent and kernel. Burrows see it as /.dormouse/guest. */
export const guestPythonDir = fileURLToPath(new URL('../python/', import.meta.url))
