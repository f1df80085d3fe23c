import { resolve } from 'node:path'
import { UsageError } from './arguments.mjs'

/**
 * What `up` takes for the server. The server checks the values; but it is built by the steps, which may take minutes, and a typo
 * should be known before. A test holds this list against the server's own.
 * @type {Readonly<Record<string, 'value' | 'file' | 'switch'>>}
 */
export const SERVER_FLAGS = {
  '--host': 'value',
  '--port': 'value',
  '--tls-cert': 'file',
  '--tls-key': 'file',
  '--insecure-bind': 'switch',
  '--ssh-host': 'value',
  '--ssh-port': 'value',
}

/**
 * Refuses what the server would not understand; files are named from the directory that the command was given in.
 * @param {readonly string[]} args
 * @returns {string[]}
 */
export function serverFlags(args) {
  const rest = [...args]
  const flags = []
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    const [flag = '', ...values] = arg.split('=')
    const kind = Object.hasOwn(SERVER_FLAGS, flag) ? SERVER_FLAGS[flag] : undefined
    if (kind === undefined || (kind === 'switch' && values.length > 0)) {
      throw new UsageError(`"${arg}" is not understood here`)
    }
    if (kind === 'switch') {
      flags.push(flag)
      continue
    }
    const value = values.length > 0 ? values.join('=') : rest.shift()
    if (value === undefined || value === '' || value.startsWith('--'))
      throw new UsageError(`${flag} needs a value`)
    flags.push(`${flag}=${kind === 'file' ? resolve(value) : value}`)
  }
  return flags
}
