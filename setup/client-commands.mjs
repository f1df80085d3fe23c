import { commandIndex } from './arguments.mjs'

/** Commands that call a server and need only the build. A test compares this list with the commands of the client. */
export const CLIENT_COMMANDS = [
  'create',
  'ls',
  'show',
  'update',
  'standby',
  'resume',
  'fork',
  'rollback',
  'promote',
  'rm',
  'snapshot',
  'run',
  'secret',
  'exec',
  'sh',
  'ssh',
  'ssh-key',
  'scrub',
  'nodes',
  'move',
  'cordon',
  'drain',
  'repl',
  'cp',
  'forward',
  'port',
  'mcp',
  'deploy',
  'service',
  'template',
  'job',
  'schedule',
  'webhook',
  'volume',
  'logs',
  'why',
  'ledger',
  'network',
  'open',
  'events',
  'tree',
  'vars',
  'server',
  'top',
  'usage',
  'demo',
  'completion',
]

/**
 * `template build` is no client command: it works on the host.
 * @param {readonly string[]} args the command and its arguments
 */
export function isClientCommand([command, ...rest]) {
  const action = rest[commandIndex(rest)]
  return CLIENT_COMMANDS.includes(command ?? '') && !(command === 'template' && action === 'build')
}
