import { commandIndex } from './arguments.mjs'

/** Commands that talk to a server, and need nothing of the set-up but what it has built. A test holds this against what they are. */
export const CLIENT_COMMANDS = [
  'create',
  'ls',
  'update',
  'standby',
  'resume',
  'fork',
  'rollback',
  'rm',
  'snapshot',
  'run',
  'secret',
  'exec',
  'sh',
  'ssh',
  'ssh-key',
  'scrub',
  'repl',
  'cp',
  'forward',
  'port',
  'mcp',
  'template',
  'volume',
  'logs',
  'why',
  'network',
  'top',
  'usage',
  'demo',
  'completion',
]

/** `template build` works on the host itself. @param {readonly string[]} args the command and what follows */
export function isClientCommand([command, ...rest]) {
  const action = rest[commandIndex(rest)]
  return CLIENT_COMMANDS.includes(command ?? '') && !(command === 'template' && action === 'build')
}
