import { resolve } from 'node:path'
import { parseFlags, UsageError } from './arguments.mjs'

const ACTIONS = {
  token: 0,
  join: 1,
  backup: 1,
  restore: 1,
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
  if (positionals.length !== ACTIONS[name])
    throw new UsageError(`\`cluster ${action}\` needs ${ACTIONS[name]} argument(s)`)
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
  }
  return 0
}
