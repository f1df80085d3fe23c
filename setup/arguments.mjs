import { resolve } from 'node:path'

const DEFAULT_DATA_DIR = '/var/lib/dormouse'

/** Every command takes it, wherever it stands. */
export const JSON_FLAG = '--json'

/** A mistake in what was typed: shown without a stack, exit status 2. */
export class UsageError extends Error {}

/**
 * @typedef {{ command: string, args: string[], dataDir: string, isJson: boolean }} Arguments
 * @param {readonly string[]} argv
 * @param {Readonly<Record<string, string | undefined>>} env
 * @returns {Arguments}
 */
export function parseArguments(argv, env) {
  let dataDir = env.DORMOUSE_DATA || DEFAULT_DATA_DIR
  const args = []
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i] ?? ''
    if (arg === '--data') dataDir = argv[++i] ?? ''
    else if (arg.startsWith('--data=')) dataDir = arg.slice('--data='.length)
    else if (arg !== JSON_FLAG) args.push(arg)
    if (dataDir === '' || dataDir.startsWith('-')) throw new UsageError('--data needs a directory')
  }
  const [command = 'help', ...rest] = args
  return { command, args: rest, dataDir: resolve(dataDir), isJson: argv.includes(JSON_FLAG) }
}

const BEFORE_COMMAND = /^(--json|(--data|--url)(=.*)?)$/s

/** Where the command is: flags that every command has may come before it. @param {readonly string[]} argv */
export function commandIndex(argv) {
  let index = 0
  for (let arg = argv[0]; arg !== undefined && BEFORE_COMMAND.test(arg); arg = argv[index])
    index += arg === '--data' || arg === '--url' ? 2 : 1
  return index
}
