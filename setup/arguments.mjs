import { resolve } from 'node:path'
import { parseArgs } from 'node:util'

const DEFAULT_DATA_DIR = '/var/lib/dormouse'

/** Every command takes it, in any position. */
export const JSON_FLAG = '--json'

/** A mistake on the command line: shown without a stack trace, exit status 2. */
export class UsageError extends Error {}

/** @typedef {NonNullable<import('node:util').ParseArgsConfig['options']>} Options */

/**
 * Takes `--data` and `--json` out of the command line, wherever they are.
 * @typedef {{ command: string, args: string[], dataDir: string, isJson: boolean }} Arguments
 * @param {readonly string[]} argv
 * @param {Readonly<Record<string, string | undefined>>} env
 * @returns {Arguments}
 */
export function parseArguments(argv, env) {
  let dataDir = env.DORMOUSE_DATA || DEFAULT_DATA_DIR
  let isJson = false
  const taken = new Set()
  for (const token of tokenize(argv, { data: { type: 'string' }, json: { type: 'boolean' } })) {
    if (token.kind !== 'option') continue
    if (token.rawName === JSON_FLAG && !token.inlineValue) {
      isJson = true
      taken.add(token.index)
    } else if (token.rawName === '--data') {
      if (!token.value || token.value.startsWith('-')) throw new UsageError('--data needs a directory')
      dataDir = token.value
      taken.add(token.index)
      if (!token.inlineValue) taken.add(token.index + 1)
    }
  }
  const [command = 'help', ...rest] = argv.filter((_, index) => !taken.has(index))
  return { command, args: rest, dataDir: resolve(dataDir), isJson }
}

/**
 * The position of the command. The flags that every client command takes may come before it.
 * @param {readonly string[]} argv
 */
export function commandIndex(argv) {
  const tokens = tokenize(argv, {
    data: { type: 'string' },
    url: { type: 'string' },
    json: { type: 'boolean' },
  })
  const isCommon = (/** @type {(typeof tokens)[number]} */ token) =>
    token.kind === 'option' && ['--data', '--url', JSON_FLAG].includes(token.rawName)
  return tokens.find((token) => !isCommon(token))?.index ?? argv.length
}

/**
 * Parses flags with their leading dashes as names: `{ '--port': '80' }`. Refuses unknown flags and flags without a
 * value.
 * @param {readonly string[]} args
 * @param {Readonly<Record<string, 'value' | 'switch'>>} [known] flags by name
 * @returns {{ flags: Record<string, string>, positionals: string[] }} a switch has the value `true`
 */
export function parseFlags(args, known = {}) {
  /** @type {Options} */
  const options = {}
  for (const [flag, kind] of Object.entries(known))
    options[flag.slice(2)] = { type: kind === 'switch' ? 'boolean' : 'string' }
  /** @type {Record<string, string>} */
  const flags = {}
  const positionals = []
  for (const token of tokenize(args, options)) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const kind = Object.hasOwn(known, token.rawName) ? known[token.rawName] : undefined
    if (kind === undefined || (kind === 'switch' && token.inlineValue)) throw unexpected(args[token.index])
    if (kind === 'value' && (!token.value || token.value.startsWith('--')))
      throw new UsageError(`${token.rawName} needs a value`)
    flags[token.rawName] = token.value ?? 'true'
  }
  return { flags, positionals }
}

/**
 * Finds `--json` without parsing: errors of the parser are JSON too.
 * @param {readonly string[]} argv
 */
export function hasJsonFlag(argv) {
  return argv.includes(JSON_FLAG)
}

/**
 * Takes `--help` and `-h` out of the arguments of a command.
 * @param {readonly string[]} args
 */
export function takeHelpFlags(args) {
  const others = args.filter((arg) => arg !== '--help' && arg !== '-h')
  return { wantsHelp: others.length < args.length, others }
}

/**
 * Refuses every argument.
 * @param {readonly string[]} args
 */
export function refuseArguments(args) {
  if (args.length > 0) throw unexpected(args[0])
}

/** @param {string | undefined} arg */
function unexpected(arg) {
  return new UsageError(`unexpected argument "${arg}"`)
}

/**
 * Not strict: this file words the errors itself.
 * @param {readonly string[]} args
 * @param {Options} options
 */
function tokenize(args, options) {
  return parseArgs({ args: [...args], options, strict: false, allowPositionals: true, tokens: true }).tokens
}
