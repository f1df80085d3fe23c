import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

/** The Python code of agent and kernel. Burrows see it as /.dormouse/guest. */
export const guestPythonDir = fileURLToPath(new URL('../python/', import.meta.url))

/** The kernel for JavaScript and TypeScript. Burrows see it as /.dormouse/guest/dormouse_node. */
export const guestNodeDir = fileURLToPath(new URL('../node/', import.meta.url))

/** What Node programs load first, seen from a burrow, so that copies of them do not agree on random bytes. */
export const NODE_PRELOAD = '/.dormouse/guest/dormouse_node/reseed-copies.cjs'

/** The parser that the Node kernel imports as `acorn.mjs`. */
export const acornFile = createRequire(import.meta.url)
  .resolve('acorn')
  .replace(/\.js$/, '.mjs')
