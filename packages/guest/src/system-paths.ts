import { posix } from 'node:path'
import { DormouseError } from '@dormouse/contracts'

/** Without these a sandbox does not work any more. What is below them can be removed. */
const SYSTEM_PATHS = new Set([
  ...['/', '/bin', '/boot', '/dev', '/etc', '/home', '/lib', '/lib32', '/lib64', '/libx32', '/proc', '/root'],
  ...['/run', '/sbin', '/sys', '/tmp', '/usr', '/var', '/.dormouse'],
  ...['/usr/bin', '/usr/lib', '/usr/lib32', '/usr/lib64', '/usr/libx32', '/usr/local', '/usr/sbin'],
  ...['/usr/share', '/var/lib'],
])

/** Whether the home of the user decides what the path means: it leads to the home or out of it. */
export function dependsOnHome(path: string): boolean {
  if (path.startsWith('/')) return false
  const plain = posix.normalize(path)
  return plain === '.' || plain === './' || plain === '..' || plain.startsWith('../')
}

/** Refuses to remove or move away what the system consists of. */
export function refuseSystemPath(field: string, path: string): void {
  if (!path.startsWith('/')) return
  const plain = posix.normalize(path).replace(/(?<=.)\/+$/, '')
  if (!SYSTEM_PATHS.has(plain)) return
  throw new DormouseError('invalid_argument', `${field}: ${plain} is part of the system and is not removed`, {
    hint: 'Name what is below it. To begin again with a new system, delete the sandbox.',
    details: { field },
  })
}
