import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseFlags, refuseArguments } from './arguments.mjs'

/**
 * The flags of `up` that configure the server. `node docs/make-configuration.mjs` writes the file from the settings
 * of the server, and a test compares the two: set-up must know the flags before the server is built, because a build
 * takes minutes and a typing mistake should be reported before it.
 * @typedef {{ flag: string, kind: 'value' | 'file' | 'switch', argument: string, default: string,
 *   summary: string }} ServerFlag
 * @returns {ServerFlag[]}
 */
export function readServerFlags() {
  return JSON.parse(readFileSync(new URL('server-flags.json', import.meta.url), 'utf8'))
}

/**
 * Parses the arguments of `up`. Relative file names become absolute: they are relative to the directory of the caller.
 * @param {readonly string[]} args
 * @returns {Record<string, string>} values by flag; the server checks them
 */
export function parseServerFlags(args) {
  const known = readServerFlags()
  const kinds = known.map(({ flag, kind }) => [flag, kind === 'switch' ? kind : 'value'])
  const { flags, positionals } = parseFlags(args, Object.fromEntries(kinds))
  refuseArguments(positionals)
  for (const { flag, kind } of known) {
    const value = flags[flag]
    if (kind === 'file' && value !== undefined) flags[flag] = resolve(value)
  }
  return flags
}
