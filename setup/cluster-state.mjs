import { resolve } from 'node:path'
import { parseFlags, UsageError } from './arguments.mjs'

/** How each is called, and how many arguments it takes besides flags. */
const ACTIONS = {
  token: { usage: 'cluster token', count: 0 },
  join: { usage: 'cluster join TOKEN', count: 1 },
  backup: { usage: 'cluster backup FILE', count: 1 },
  restore: { usage: 'cluster restore FILE', count: 1 },
}

/** @param {readonly string[]} args */
export function isClusterState([action = '']) {
  return Object.hasOwn(ACTIONS, action)
}

/**
 * `cluster token`, `cluster join TOKEN`, `cluster backup FILE` and `cluster restore FILE`.
 * @param {{ args: readonly string[], dataDir: string, stdout: { write(text: string): unknown }, isJson: boolean }} options
 */
export async function runClusterState({ args: [action = '', ...rest], dataDir, stdout, isJson }) {
  const { flags, positionals } = parseFlags(rest, { '--cluster': 'value', '--cluster-key': 'value' })
  const name = /** @type {keyof typeof ACTIONS} */ (action)
  const { usage, count } = ACTIONS[name]
  if (positionals.length !== count) throw new UsageError(`give \`${usage}\` and nothing else`)
  const [given = ''] = positionals
  const { clusterMaintenance, loadConfig, readEnv } = await import('@dormouse/server')
  const config = loadConfig({ env: readEnv(), flags, dataDir })
  /** @param {object} answer @param {string} text */
  const say = (answer, text) => stdout.write(isJson ? `${JSON.stringify(answer)}\n` : `${text}\n`)
  if (name === 'token') {
    const token = await clusterMaintenance.createToken(config)
    say({ token }, token)
  } else if (name === 'join') {
    const servers = await clusterMaintenance.join(config, given)
    say({ servers }, `Start this host with: ./dormouse up --cluster ${servers.join(',')}`)
  } else {
    const path = resolve(given)
    const done = await (name === 'backup'
      ? clusterMaintenance.backUp(config, path)
      : clusterMaintenance.restore(config, path))
    const verb = name === 'backup' ? 'Wrote' : 'Restored'
    say(done, `${verb} ${done.messages} records, ${(done.bytes / 1e6).toFixed(1)} MB.`)
    if (!done.hasDepot && !isJson)
      stdout.write('It has no snapshots: back up the S3 bucket of the depot, too, after this file.\n')
  }
  return 0
}
